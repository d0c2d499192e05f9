"use strict";

// What a report does: draws its charts, sorts and filters its tables, and shows where the reader is.
(() => {
  const { config, figures } = JSON.parse(document.getElementById("report-data").textContent);
  const make = (tag, textContent = "", className = "") =>
    Object.assign(document.createElement(tag), { textContent, className });
  const idle = () => new Promise((done) => (window.requestIdleCallback || setTimeout)(done));

  // Charts

  // Errors alone are logged: a layer without rows, as where single runs are left out, is none.
  const HOW = { actions: false, renderer: "svg", mode: "vega-lite", logLevel: 1 };

  const opened = ({ fields, rows }) => rows.map((row) => Object.fromEntries(fields.map((name, at) => [name, row[at]])));

  function panelOf(figure) {
    const chosen = [...figure.querySelectorAll(".tools :is(select, input)")].map((each) => each.value).join(" ");
    const panel = figures[figure.dataset.figure].panels[chosen];
    return panel ? opened(panel) : [];
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
    const shown = await vegaEmbed(chart, spec, { ...HOW, config: settings });
    figure.drawn?.finalize();
    figure.drawn = shown;
  }

  // The numbers of a panel, for those who cannot or would rather not look at a chart.
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

  async function drawAll() {
    for (const figure of document.querySelectorAll("figure[data-figure]")) {
      figure.addEventListener("change", () => { draw(figure); list(figure); });
      figure.querySelector(".numbers").addEventListener("toggle", () => list(figure));
      await draw(figure).catch(console.error); // and the others go on
      await idle();
    }
    document.body.dataset.drawn = "all";
  }

  // Tables

  const keyOf = (row, at) => row.cells[at].dataset.value ?? row.cells[at].firstChild.data; // without remarks

  function compare(a, b, at, down) {
    const [x, y] = [keyOf(a, at), keyOf(b, at)];
    if ((x === "–") !== (y === "–")) return x === "–" ? 1 : -1; // what is missing comes last, whichever way
    const order = isNaN(x) || isNaN(y) ? x.localeCompare(y, undefined, { numeric: true }) : x - y;
    return down ? -order : order;
  }

  function sortBy(head) {
    const { parentNode: heads, cellIndex: at } = head;
    const before = head.ariaSort;
    const first = head.dataset.better === "higher" ? "descending" : "ascending";
    const next = before === "none" ? first : before === "ascending" ? "descending" : "ascending";
    for (const each of heads.cells) each.ariaSort = "none";
    head.ariaSort = next;
    const body = heads.closest("table").tBodies[0];
    body.append(...[...body.rows].sort((a, b) => compare(a, b, at, next === "descending")));
  }

  function filter(table, input, output) {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = [...table.tBodies[0].rows];
    for (const row of rows) {
      row.said ??= [...row.querySelectorAll(".words")].map((cell) => cell.textContent).join(" ").toLowerCase();
      row.hidden = !words.every((word) => row.said.includes(word));
    }
    const left = rows.filter((row) => !row.hidden).length;
    const of = left === rows.length ? "" : `${left.toLocaleString("en")} of `;
    output.textContent = `${of}${rows.length.toLocaleString("en")} ${output.dataset.noun}s`;
  }

  for (const frame of document.querySelectorAll(".sortable")) {
    const table = frame.querySelector("table");
    for (const head of table.tHead.rows[0].cells) head.firstChild.addEventListener("click", () => sortBy(head));
    const input = frame.querySelector("input");
    input?.addEventListener("input", () => filter(table, input, frame.querySelector("output")));
  }

  // Contents

  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const watch = new IntersectionObserver((seen) => {
    for (const { target, isIntersecting } of seen) {
      if (!isIntersecting) continue;
      for (const [name, link] of links) link.ariaCurrent = name === target.id ? "true" : null;
    }
  }, { rootMargin: "-20% 0px -70%" });
  for (const section of document.querySelectorAll("main section")) watch.observe(section);

  drawAll();
})();
