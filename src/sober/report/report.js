"use strict";

// Draws the charts of a report, sorts and filters its tables, and shows where a table goes on.
(() => {
  const { config, figures } = JSON.parse(document.getElementById("report-data").textContent);
  const make = (tag, textContent = "", className = "") =>
    Object.assign(document.createElement(tag), { textContent, className });
  const idle = () => new Promise((done) => (window.requestIdleCallback || setTimeout)(done));

  // Charts

  // Vega logs only errors. A layer may have no rows, for example if single runs are left out: that is no error.
  const EMBEDDING = { actions: false, renderer: "svg", mode: "vega-lite", logLevel: 1 };

  const objectOf = (fields, row) => Object.fromEntries(fields.map((name, i) => [name, row[i]]));

  function panelOf(figure) {
    const chosen = [...figure.querySelectorAll(".tools :is(select, input)")].map((input) => input.value).join(" ");
    const panel = figures[figure.dataset.figure].panels[chosen];
    return panel ? panel.rows.map((row) => objectOf(panel.fields, row)) : [];
  }

  async function draw(figure) {
    const chart = figure.querySelector(".chart");
    const rows = panelOf(figure);
    if (!rows.length) {
      chart.replaceChildren(make("p", "No run has this number here."));
      return;
    }
    const spec = { ...figures[figure.dataset.figure].spec, datasets: { rows } };
    const names = { labelLimit: Math.max(90, Math.min(300, 0.4 * figure.clientWidth)) };
    const columns = figure.clientWidth < 500 ? 2 : 4;
    const settings = { ...config, axisY: names, legend: { ...config.legend, columns } };
    if (spec.usermeta) spec.height = spec.usermeta.step * new Set(rows.map((row) => row[spec.usermeta.of])).size;
    const shown = await vegaEmbed(chart, spec, { ...EMBEDDING, config: settings });
    figure.drawn?.finalize();
    figure.drawn = shown;
  }

  // The numbers of a panel as a table, for readers who cannot see the chart or prefer numbers.
  function list(figure) {
    const details = figure.querySelector(".numbers");
    details.querySelector(".scroll")?.remove();
    if (!details.open) return;
    const hidden = new Set(["part", "text", "size", "at", "offset", "order", "score", "seed"]);
    const rows = panelOf(figure).filter((row) => !row.part || row.part === "summary");
    const fields = Object.keys(rows[0] || {}).filter((name) => !hidden.has(name));
    const line = (cell, values) => {
      const row = make("tr");
      row.append(...values.map((value) => make(cell, value ?? "–", typeof value === "string" ? "words" : "")));
      return row;
    };
    const table = make("table");
    table.append(line("th", fields), ...rows.map((row) => line("td", fields.map((name) => row[name]))));
    const frame = Object.assign(make("div", "", "scroll"), { tabIndex: 0 });
    frame.append(table);
    details.append(frame);
  }

  // Draws the charts that can be seen and are not drawn yet: a folded section has no width to draw in.
  let drawing = Promise.resolve();
  function drawVisible() {
    delete document.body.dataset.drawn;
    drawing = drawing.then(async () => {
      for (const figure of document.querySelectorAll("figure[data-figure]")) {
        if (figure.begun || figure.closest("details:not([open])")) continue;
        figure.begun = true;
        await draw(figure).catch(console.error); // an error in one chart stops no other
        await idle();
      }
      markEdges();
      document.body.dataset.drawn = "all";
    });
  }

  for (const figure of document.querySelectorAll("figure[data-figure]")) {
    figure.addEventListener("change", () => { draw(figure); list(figure); });
    figure.querySelector(".numbers").addEventListener("toggle", () => list(figure));
  }

  // Edges beyond which a frame that scrolls has more

  function markEdge(frame) {
    const right = frame.scrollWidth - frame.clientWidth - frame.scrollLeft;
    const bottom = frame.scrollHeight - frame.clientHeight - frame.scrollTop;
    const more = [[frame.scrollLeft > 1, "left"], [right > 1, "right"], [bottom > 1, "bottom"]];
    frame.dataset.more = more.filter(([there]) => there).map(([, edge]) => edge).join(" ");
  }

  const markEdges = () => document.querySelectorAll(".scroll").forEach(markEdge);
  document.addEventListener("scroll", ({ target }) => target.matches?.(".scroll") && markEdge(target), true);
  window.addEventListener("resize", markEdges);

  // Folded sections. A link to one opens it.

  for (const fold of document.querySelectorAll(".fold > details")) {
    fold.addEventListener("toggle", () => { if (fold.open) drawVisible(); });
  }
  function openLinked() {
    const fold = location.hash && document.getElementById(location.hash.slice(1))?.querySelector("details");
    if (fold) fold.open = true;
  }
  window.addEventListener("hashchange", openLinked);
  openLinked();

  // Tables

  // What sorts a row: the value of its cell in a column, or the cell's text without its remark.
  const keyOf = (row, column) => row.cells[column].dataset.value ?? row.cells[column].firstChild.data;

  function compare(a, b, at, down) {
    const [x, y] = [keyOf(a, at), keyOf(b, at)];
    if ((x === "–") !== (y === "–")) return x === "–" ? 1 : -1; // missing values come last in either direction
    const order = isNaN(x) || isNaN(y) ? x.localeCompare(y, undefined, { numeric: true }) : x - y;
    return down ? -order : order;
  }

  function sortBy(head) {
    const { parentNode: heads, cellIndex: at } = head;
    const before = head.ariaSort;
    const first = head.dataset.better === "higher" ? "descending" : "ascending";
    const next = before === "none" ? first : before === "ascending" ? "descending" : "ascending";
    for (const other of heads.cells) other.ariaSort = "none";
    head.ariaSort = next;
    const body = heads.closest("table").tBodies[0];
    body.append(...[...body.rows].sort((a, b) => compare(a, b, at, next === "descending")));
  }

  function filter(table, input, output) {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = [...table.tBodies[0].rows];
    for (const row of rows) {
      row.words ??= [...row.querySelectorAll(".words")].map((cell) => cell.textContent).join(" ").toLowerCase();
      row.hidden = !words.every((word) => row.words.includes(word));
    }
    const left = rows.filter((row) => !row.hidden).length;
    const shownOf = left === rows.length ? "" : `${left.toLocaleString("en")} of `;
    output.textContent = `${shownOf}${rows.length.toLocaleString("en")} ${output.dataset.noun}s`;
  }

  for (const frame of document.querySelectorAll(".sortable")) {
    const table = frame.querySelector("table");
    for (const head of table.tHead.rows[0].cells) head.firstChild.addEventListener("click", () => sortBy(head));
    const input = frame.querySelector("input");
    input?.addEventListener("input", () => filter(table, input, frame.querySelector("output")));
  }

  drawVisible();
})();
