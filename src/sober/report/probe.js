"use strict";

// Puts the chosen panel into a heat map, and shows the pictures of the chosen layer.
(() => {
  const heats = JSON.parse(document.getElementById("probe-data").textContent);
  const edges = () => window.dispatchEvent(new Event("resize")); // report.js looks anew where frames go on

  function show(figure) {
    const { panels } = heats[figure.dataset.heat];
    const [number, labels] = ["number", "labels"].map((name) => figure.querySelector(`[data-choice=${name}]`));
    const ofNumber = number ? panels.filter((panel) => panel.number === number.value) : panels;
    const panel = ofNumber.find((other) => other.labels === labels?.value) ?? ofNumber[0];
    if (labels) labels.closest("label").hidden = panel.labels === null;
    figure.querySelector(".how-to-read").textContent = panel.read;
    figure.querySelectorAll("tbody td").forEach((cell, place) => {
      const [text, share, note, best] = panel.cells[place];
      cell.textContent = text;
      cell.title = note;
      cell.className = best ? "best" : "";
      if (share === null) cell.style.removeProperty("--share");
      else cell.style.setProperty("--share", share);
    });
    edges();
  }

  for (const figure of document.querySelectorAll("[data-heat]")) {
    figure.addEventListener("change", () => show(figure));
  }

  for (const frame of document.querySelectorAll(".panels")) {
    frame.querySelector("select")?.addEventListener("change", ({ target }) => {
      frame.querySelectorAll(".panel").forEach((panel, place) => { panel.hidden = place !== Number(target.value); });
      edges();
    });
  }
})();
