// The latent explorer. The first half computes a decoder, in a page or in node; the second half is the page itself.
"use strict";

(() => {
  // ---- The net: a graph of sober.interop.graph, which documents each kind of layer. Grids are (c, h, w).

  /** The weights as numbers. Text has four letters of base64 for each: the upper three bytes of a float32. */
  function unpack(text) {
    const bytes = atob(text);
    const bits = new Int32Array(bytes.length / 3);
    for (let i = 0, at = 0; i < bits.length; i++, at += 3) {
      bits[i] = (bytes.charCodeAt(at) << 8) | (bytes.charCodeAt(at + 1) << 16) | (bytes.charCodeAt(at + 2) << 24);
    }
    return new Float32Array(bits.buffer);
  }

  /** A function from the graph's input to its outputs, by name. A call overwrites the outputs of the call before. */
  function net(graph, weights) {
    const arrays = new Map();
    let at = 0;
    for (const [name, shape] of Object.entries(graph.arrays)) {
      const end = at + size(shape);
      arrays.set(name, weights.subarray(at, end));
      at = end;
    }
    const [input, ...layers] = graph.layers;
    const values = new Map([[input.name, new Float32Array(size(input.shape))]]);
    const shapes = new Map(graph.layers.map((layer) => [layer.name, layer.shape]));
    const steps = [];
    for (const layer of layers) {
      const inputs = layer.inputs.map((name) => values.get(name));
      if (layer.op === "reshape" || layer.op === "flatten") {
        values.set(layer.name, inputs[0]);
        continue;
      }
      const own = Object.fromEntries(layer.arrays.map((role) => [role, arrays.get(`${layer.name}.${role}`)]));
      const output = new Float32Array(size(layer.shape));
      const compute = LAYERS[layer.op](layer, own, shapes.get(layer.inputs[0]));
      values.set(layer.name, output);
      steps.push(() => compute(output, ...inputs));
    }
    const outputs = Object.fromEntries(Object.entries(graph.outputs).map(([name, layer]) => [name, values.get(layer)]));
    return (numbers) => {
      values.get(input.name).set(numbers);
      for (const step of steps) step();
      return outputs;
    };
  }

  const size = (shape) => shape.reduce((product, side) => product * side, 1);

  // For each kind of layer: from the layer, its arrays and its input's shape, makes a function (output, ...inputs).
  const LAYERS = {
    linear: (layer, { weight, bias }) => (y, x) => multiply(x, 1, weight, bias, y, 0, 0, 1),
    conv: (layer, { weight, bias }, shape) => {
      const { kernel, stride, padding } = layer.attributes;
      const taps = range(kernel).map((k) => k - padding);
      const [target, corner] = [layer.shape, [0, 0]];
      return pass({ shape, taps: [taps, taps], every: stride, weight, bias, target, spread: 1, corner });
    },
    deconv: (layer, { weight, bias }, shape) => {
      // Which entries of the kernel reach an output pixel depends on its place modulo the stride. That makes
      // stride x stride kinds of output pixels; a convolution computes each kind.
      const { kernel, stride, padding } = layer.attributes;
      const [inputs, outputs, target] = [shape[0], layer.shape[0], layer.shape];
      const reach = range(stride).map((r) => range(kernel).filter((k) => (r + padding - k) % stride === 0));
      const passes = range(stride * stride).map((kind) => {
        const corner = [Math.floor(kind / stride), kind % stride];
        const [rows, columns] = corner.map((r) => reach[r]);
        const own = new Float32Array(outputs * inputs * rows.length * columns.length);
        let at = 0;
        for (let o = 0; o < outputs; o++)
          for (let i = 0; i < inputs; i++)
            for (const row of rows)
              for (const column of columns) own[at++] = weight[((i * outputs + o) * kernel + row) * kernel + column];
        const taps = corner.map((r) => reach[r].map((k) => (r + padding - k) / stride));
        return pass({ shape, taps, every: 1, weight: own, bias, target, spread: stride, corner });
      });
      return (y, x) => passes.forEach((convolve) => convolve(y, x));
    },
    batch_norm: (layer, { weight, bias, running_mean, running_var }) => {
      const scale = weight.map((w, c) => w / Math.sqrt(running_var[c] + layer.attributes.epsilon));
      const offset = bias.map((b, c) => b - running_mean[c] * scale[c]);
      return (y, x) => rescale(y, x, scale, offset);
    },
    layer_norm: (layer, { weight, bias }) => (y, x) => {
      const mean = x.reduce((sum, value) => sum + value, 0) / x.length;
      const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
      const over = 1 / Math.sqrt(variance + layer.attributes.epsilon);
      rescale(y, x, weight.map((w) => w * over), bias.map((b, c) => b - mean * weight[c] * over));
    },
    relu: () => elementwise((x) => (x > 0 ? x : 0)),
    leaky_relu: ({ attributes: { slope } }) => elementwise((x) => (x > 0 ? x : slope * x)),
    tanh: () => elementwise(Math.tanh),
    sigmoid: () => elementwise((x) => 1 / (1 + Math.exp(-x))),
    logit: () => elementwise((x) => Math.log(x / (1 - x))),
    clip: ({ attributes: { low, high } }) => elementwise((x) => Math.min(Math.max(x, low), high)),
    double: ({ shape: [, , width] }) => (y, x) => {
      for (let i = 0; i < y.length; i++) y[i] = x[(width / 2) * (Math.floor(i / width) >> 1) + ((i % width) >> 1)];
    },
    add: () => (y, a, b) => {
      for (let i = 0; i < y.length; i++) y[i] = a[i] + b[i];
    },
  };

  const range = (length) => Array.from({ length }, (_, i) => i);

  const elementwise = (f) => (y, x) => {
    for (let i = 0; i < y.length; i++) y[i] = f(x[i]);
  };

  /** y = x · scale + offset; each channel has its own scale and offset. */
  function rescale(y, x, scale, offset) {
    const positions = y.length / scale.length;
    for (let c = 0, i = 0; c < scale.length; c++) {
      for (let p = 0; p < positions; p++, i++) y[i] = x[i] * scale[c] + offset[c];
    }
  }

  /**
   * A convolution. It stands at every `every`-th pixel of the input and reads the pixels at the offsets `taps`. Its
   * results go to every `spread`-th pixel of the target, from `corner` on. `weight` is (o, channels · taps).
   */
  function pass({ shape, taps: [down, across], every, weight, bias, target, spread, corner }) {
    const [channels, height, width] = shape;
    const [, targetHeight, targetWidth] = target;
    const [rows, columns] = [targetHeight / spread, targetWidth / spread];
    const patches = new Float32Array(columns * channels * down.length * across.length);
    return (y, x) => {
      for (let row = 0; row < rows; row++) {
        let at = 0;
        for (let column = 0; column < columns; column++) {
          for (let c = 0; c < channels; c++) {
            for (let i = 0; i < down.length; i++) {
              const h = row * every + down[i];
              const start = (c * height + h) * width;
              for (let j = 0; j < across.length; j++, at++) {
                const w = column * every + across[j];
                patches[at] = h >= 0 && h < height && w >= 0 && w < width ? x[start + w] : 0;
              }
            }
          }
        }
        const start = (row * spread + corner[0]) * targetWidth + corner[1];
        multiply(patches, columns, weight, bias, y, start, spread, targetHeight * targetWidth);
      }
    };
  }

  /**
   * The innermost loop of every layer: x (rows, n) times the transpose of weight (o, n), plus bias (o). Output o of a
   * row goes to y[o · plane + start + row · step]. It computes two rows and four outputs at a time, which read the same
   * numbers: that saves a third of the time. If rows or outputs run out, it computes the last ones again.
   */
  function multiply(x, rows, weight, bias, y, start, step, plane) {
    const n = weight.length / bias.length;
    const last = bias.length - 1;
    for (let row = 0; row < rows; row += 2) {
      const next = Math.min(row + 1, rows - 1);
      const from = row * n, fromNext = next * n;
      const to = start + row * step, toNext = start + next * step;
      for (let o = 0; o <= last; o += 4) {
        const p = Math.min(o + 1, last), q = Math.min(o + 2, last), r = Math.min(o + 3, last);
        const on = o * n, pn = p * n, qn = q * n, rn = r * n;
        let a = bias[o], b = bias[p], c = bias[q], d = bias[r];
        let e = a, f = b, g = c, h = d;
        for (let i = 0; i < n; i++) {
          const u = x[from + i], v = x[fromNext + i];
          const s = weight[on + i], t = weight[pn + i], k = weight[qn + i], l = weight[rn + i];
          a += u * s; b += u * t; c += u * k; d += u * l;
          e += v * s; f += v * t; g += v * k; h += v * l;
        }
        y[o * plane + to] = a; y[p * plane + to] = b; y[q * plane + to] = c; y[r * plane + to] = d;
        y[o * plane + toNext] = e; y[p * plane + toNext] = f; y[q * plane + toNext] = g; y[r * plane + toNext] = h;
      }
    }
  }

  // ---- The page. Names from users and files enter it as text, never as markup.

  const SPAN = 3; // a slider's largest value either way, unless a start lies further out
  const SWEEP = 2; // a sweep's largest value either way
  const PERIOD = 4000; // milliseconds for a sweep, there and back
  const SLOW = 40; // milliseconds: a slower decoder pauses for as long as it worked, so that the page stays responsive
  const GUIDE =
    "Each slider is one latent; those that carry most come first. Move it, or press Sweep, and see what changes. " +
    "Click on a name to write your own. On a keyboard, Tab goes to the next control and arrow keys move a slider.";
  const HINT = "Names stay in this browser. To keep or share them copy this text; to get them back paste it here.";
  const REFUSED = 'Names must be a JSON object from latents to texts, as in {"0": "size"}.';

  /** An element with properties and children; a string among the children becomes text. */
  function make(tag, properties = {}, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  }

  /** Fills `root` with one model's picture and sliders, and with a choice of model if there are several. */
  function explorer(root, models) {
    let shown = view(models[0]);
    const choice = make("select", {}, ...models.map((model, i) => make("option", { value: i }, model.title)));
    choice.addEventListener("change", () => {
      shown.stop();
      const next = view(models[choice.value]);
      shown.element.replaceWith(next.element);
      shown = next;
    });
    const title = make("p", { className: "explorer-title" }, models[0].title);
    const head = models.length > 1 ? make("label", { className: "explorer-model" }, "Model", choice) : title;
    root.replaceChildren(head, shown.element);
  }

  /** The view of one model: its picture, starts, sliders and names. */
  function view(model) {
    const code = new Float32Array(model.kl.length);
    const picture = canvasOf(model);
    const sweep = sweeper((latent, value) => move(latent, value));
    const names = nameBook(model, (latent) => rows[latent].rename(names.of(latent)));
    const rows = model.kl.map((kl, latent) => {
      const limit = Math.max(SPAN, ...model.starts.map((start) => Math.ceil(Math.abs(start.code[latent]))));
      return rowOf(latent, kl, model.told[latent], limit, {
        move: (value) => (sweep.stop(), move(latent, value)),
        sweep: () => sweep.toggle(latent, code[latent], rows[latent].swept),
        rename: (name) => names.set(latent, name),
      });
    });
    const starts = startsOf(model, begin, picture.begin);
    rows.forEach((row, latent) => row.rename(names.of(latent)));

    function move(latent, value) {
      code[latent] = value;
      rows[latent].show(value);
      picture.draw(code);
    }
    function begin(from) {
      sweep.stop();
      from.forEach((value, latent) => move(latent, value));
    }

    starts.reset();
    const stage = make("div", { className: "explorer-stage" }, picture.element, starts.element);
    const guide = make("p", { className: "explorer-guide" }, GUIDE);
    const controls = make("div", { className: "explorer-controls" }, guide, ...listsOf(model, rows), names.element);
    const element = make("div", { className: "explorer-view" }, stage, controls);
    element.style.setProperty("--aspect", model.shape[1] / model.shape[0]);
    return { element, stop: sweep.stop };
  }

  /** The original of the start, and beside it the decoded picture, which is drawn at most once a frame. */
  function canvasOf({ graph, weights, shape: [height, width, channels], title }) {
    const decode = net(graph, unpack(weights));
    const canvas = make("canvas", { width, height, className: "explorer-picture", role: "img" });
    canvas.ariaLabel = `Picture that ${title} decodes from the sliders`;
    const context = canvas.getContext("2d");
    const pixels = context.createImageData(width, height);
    let latest = null;
    let took = 0;

    function paint() {
      const begun = performance.now();
      const values = decode(latest).pictures;
      const plane = height * width;
      for (let i = 0; i < plane; i++) {
        for (let colour = 0; colour < 3; colour++) {
          // Three channels are colours. Any other number of channels is drawn in grey, as their mean.
          let value = 0;
          if (channels === 3) value = values[colour * plane + i];
          else for (let c = 0; c < channels; c++) value += values[c * plane + i] / channels;
          pixels.data[4 * i + colour] = 255 * value;
        }
        pixels.data[4 * i + 3] = 255;
      }
      context.putImageData(pixels, 0, 0);
      latest = null;
      took = performance.now() - begun;
    }
    function draw(code) {
      if (latest === null) took > SLOW ? setTimeout(paint, took) : requestAnimationFrame(paint);
      latest = code;
    }
    const original = make("div", { className: "explorer-original" });
    function begin({ picture }) {
      original.replaceChildren(picture ? make("img", { src: picture, alt: "Original of the start" }) : "no original");
    }
    const captioned = (words, ...children) =>
      make("div", { className: "explorer-shot" }, ...children, make("span", { className: "explorer-small" }, words));
    const decoded = captioned("Decoded from the sliders", canvas);
    return { element: make("div", { className: "explorer-frame" }, decoded, captioned("Original", original)), draw, begin };
  }

  /** Buttons that begin at the code of an embedded picture, or at 0. `begin` gets the code, `show` the whole start. */
  function startsOf(model, begin, show) {
    const zero = { name: "all latents at 0", code: model.kl.map(() => 0) };
    const all = [...model.starts, zero];
    let chosen = model.first;
    const buttons = all.map((start, i) => {
      const face = start.picture ? make("img", { src: start.picture, alt: start.name }) : "0";
      const button = make("button", { type: "button", className: "explorer-start", title: start.name }, face);
      if (!start.picture) button.ariaLabel = start.name;
      button.addEventListener("click", () => choose(i));
      return button;
    });
    function choose(i) {
      chosen = i;
      buttons.forEach((button, j) => (button.ariaPressed = String(i === j)));
      show(all[i]);
      begin(all[i].code);
    }
    const reset = make("button", { type: "button", className: "explorer-button" }, "Reset");
    reset.addEventListener("click", () => choose(chosen));
    const label = make("span", { className: "explorer-small", ariaHidden: "true" }, "Start from");
    const head = make("div", { className: "explorer-line" }, label, reset);
    const strip = make("div", { className: "explorer-strip", role: "group", ariaLabel: "Start from" }, ...buttons);
    return { element: make("div", { className: "explorer-starts" }, head, strip), reset: () => choose(chosen) };
  }

  /** One latent: which it is, its name or what it does in words, its value, its slider, and its KL in nats. */
  function rowOf(latent, kl, told, limit, on) {
    const usual = `latent ${latent}`;
    const placeholder = told || "what does it do?";
    const field = make("input", { type: "text", className: "explorer-name", placeholder, dir: "auto" });
    const value = make("span", { className: "explorer-value", ariaHidden: "true" });
    const which = make("span", { className: "explorer-small", ariaHidden: "true" }, usual);
    const slider = make("input", { type: "range", min: -limit, max: limit, step: 0.05, className: "explorer-slider" });
    const button = make("button", { type: "button", className: "explorer-button", ariaPressed: "false" }, "Sweep");
    field.title = field.ariaLabel = `Name of latent ${latent}`;
    field.autocomplete = "off";
    field.addEventListener("input", () => on.rename(field.value));
    slider.addEventListener("input", () => on.move(slider.valueAsNumber));
    button.addEventListener("click", on.sweep);
    const carries = make("span", { className: "explorer-small" }, `carries ${kl.toFixed(2)} nats`);
    const ends = [`\u2212${limit}`, "0", `+${limit}`].map((end) => make("span", {}, end));
    const scale = make("div", { className: "explorer-scale", ariaHidden: "true" }, ...ends);
    const track = make("div", { className: "explorer-track" }, slider, scale);
    return {
      element: make(
        "li",
        { className: "explorer-latent" },
        make("div", { className: "explorer-line explorer-head" }, which, field, carries),
        make("div", { className: "explorer-line" }, track, value, button),
      ),
      show(number) {
        slider.value = number;
        const rounded = Math.round(100 * number) / 100 || 0; // never -0
        value.textContent = slider.ariaValueText = rounded.toFixed(2).replace("-", "\u2212");
      },
      rename(name) {
        if (field.value !== name) field.value = name;
        const words = name || told;
        slider.ariaLabel = words ? `${usual}: ${words}` : usual;
        button.ariaLabel = `Sweep ${slider.ariaLabel}`;
      },
      swept: (whether) => (button.ariaPressed = String(whether)),
    };
  }

  /** The rows, most informative first. Latents that carry little are folded away below. */
  function listsOf({ kl, informative }, rows) {
    const order = range(kl.length).sort((a, b) => kl[b] - kl[a]);
    const [some, none] = [order.filter((i) => kl[i] >= informative), order.filter((i) => !(kl[i] >= informative))];
    const list = (latents) => make("ol", { className: "explorer-latents" }, ...latents.map((i) => rows[i].element));
    if (none.length === 0) return [list(some)];
    const says = none.length === 1 ? "1 latent carries little" : `${none.length} latents carry little`;
    const inside = [make("summary", {}, says), list(none)];
    return [list(some), make("details", { className: "explorer-fold", open: some.length === 0 }, ...inside)];
  }

  /** Moves one latent there and back until it is stopped. If the system asks for less motion, a press is one step. */
  function sweeper(move) {
    let active = null; // the moving latent, its next frame, and the function to call when it stops
    function stop() {
      if (active === null) return;
      cancelAnimationFrame(active.frame);
      active.swept(false);
      active = null;
    }
    function toggle(latent, value, swept) {
      const again = active?.latent === latent;
      stop();
      if (again) return;
      if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
        move(latent, value >= SWEEP ? -SWEEP : Math.min(SWEEP, Math.floor(value) + 1));
        return;
      }
      const phase = Math.asin(Math.min(Math.max(value / SWEEP, -1), 1));
      const begun = performance.now();
      function step(now) {
        move(latent, SWEEP * Math.sin(phase + (2 * Math.PI * (now - begun)) / PERIOD));
        active.frame = requestAnimationFrame(step);
      }
      active = { latent, swept, frame: requestAnimationFrame(step) };
      swept(true);
    }
    return { stop, toggle };
  }

  /** The names of a model's latents: kept in this browser, shown as JSON, and taken from JSON. */
  function nameBook(model, renamed) {
    const key = `sober.names.${model.identity}`;
    const names = new Map(read(stored(key) ?? "{}", model.kl.length) ?? []);
    const text = make("textarea", { rows: 4, spellcheck: false, ariaLabel: "Names as JSON" });
    const status = make("p", { className: "explorer-small", role: "status" });
    const button = make("button", { type: "button", className: "explorer-button" }, "Use these names");
    button.addEventListener("click", () => {
      const given = read(text.value, model.kl.length);
      status.textContent = given ? "Done." : REFUSED;
      if (!given) return;
      names.clear();
      given.forEach(([latent, name]) => names.set(latent, name));
      keep();
      range(model.kl.length).forEach(renamed);
    });
    function keep() {
      text.value = JSON.stringify(Object.fromEntries(names), null, 1);
      store(key, text.value);
    }
    text.value = JSON.stringify(Object.fromEntries(names), null, 1);
    const hint = make("p", { className: "explorer-small" }, HINT);
    const inside = [make("summary", {}, "Names as JSON"), hint, text, button, status];
    return {
      element: make("details", { className: "explorer-fold" }, ...inside),
      of: (latent) => names.get(latent) ?? "",
      set(latent, name) {
        name ? names.set(latent, name) : names.delete(latent);
        keep();
        renamed(latent);
      },
    };
  }

  /** Pairs of latent and name from JSON; null if the text is not an object from latents to names. */
  function read(text, latents) {
    try {
      const given = JSON.parse(text);
      if (given === null || typeof given !== "object" || Array.isArray(given)) return null;
      const right = ([latent, name]) => /^\d+$/.test(latent) && Number(latent) < latents && typeof name === "string";
      const pairs = Object.entries(given);
      return pairs.every(right) ? pairs.map(([latent, name]) => [Number(latent), name]) : null;
    } catch {
      return null;
    }
  }

  // A browser may refuse to store anything for a page. Then names last only as long as the page is open.
  function stored(key) {
    try {
      return localStorage.getItem(key);
    } catch {
      return null;
    }
  }
  function store(key, text) {
    try {
      localStorage.setItem(key, text);
    } catch {}
  }

  if (typeof module !== "undefined") module.exports = { net, unpack };
  else explorer(document.getElementById("explorer"), JSON.parse(document.getElementById("explorer-data").textContent));
})();
