# The public names of Sober, and where each lives. This is the one list: types read it, and so does `import sober`.
from sober import criteria as criteria
from sober import methods as methods
from sober import metrics as metrics
from sober import nets as nets
from sober import tasks as tasks
from sober import worlds as worlds
from sober.criteria.udr import udr_of_arrays
from sober.errors import RequestError as RequestError
from sober.metrics import Collector as Collector
from sober.metrics import Scores as Scores
from sober.metrics import score as score
from sober.metrics import scorer as scorer
from sober.metrics.scoring.comparison import Comparison as Comparison
from sober.models.grid import grid as grid
from sober.models.model import Model as Model
from sober.models.model import load as load
from sober.requests.agree import Agreement as Agreement
from sober.requests.agree import agree as agree
from sober.requests.compare import compare as compare
from sober.requests.explore import explore as explore
from sober.requests.fit.fit import Fit as Fit
from sober.requests.fit.fit import fit as fit
from sober.requests.merge import merge as merge
from sober.requests.probe.probe import Probe as Probe
from sober.requests.probe.probe import probe as probe
from sober.requests.results import Results as Results
from sober.requests.results import encode_results, open_results, shipped_results
from sober.requests.study.study import Product as Product
from sober.requests.study.study import Scale as Scale
from sober.requests.study.study import Study as Study
from sober.requests.train import train as train
from sober.requests.tune.search_space import Range as Range
from sober.requests.tune.search_space import parse_space as parse_space
from sober.requests.tune.tune import tune as tune
from sober.tasks import perform
from sober.types import Adam as Adam
from sober.types import Codes as Codes
from sober.types import Factor as Factor
from sober.types import Run as Run
from sober.types import Score as Score
from sober.types import Training as Training
from sober.worlds import World as World
from sober.worlds import world as world

# Names that are called otherwise at home.
encode = encode_results
open = open_results
results = shipped_results
task = perform
udr = udr_of_arrays

__version__: str
__all__: list[str]
