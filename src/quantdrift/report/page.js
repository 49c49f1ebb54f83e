"use strict";
// Draw every chart of the page at the width it has, and again when that changes.
// Colours need no work here: charts name CSS properties, which follow the theme by themselves.

const MARGIN = { axis: 50, rowLabel: 20, gap: 12, narrow: 520 };

// One legend entry a line, cut where the screen ends.
function stackLegends(node, width) {
  for (const [key, value] of Object.entries(node ?? {})) {
    if (typeof value !== "object") continue;
    if (key === "legend" && value) Object.assign(value, { columns: 1, labelLimit: width - 40 });
    else stackLegends(value, width);
  }
}

function fit(spec, width) {
  const narrow = width < MARGIN.narrow;
  if (narrow) stackLegends(spec, width);
  const inner = width - MARGIN.axis - (spec.facet?.row ? MARGIN.rowLabel : 0);
  const panels = spec.usermeta.panels;
  if (spec.concat) {
    spec.columns = narrow ? 1 : panels;
    const each = width / spec.columns - MARGIN.axis - MARGIN.gap * 2;
    for (const child of spec.concat) child.width = Math.floor(each);
  } else {
    const gap = narrow ? 6 : MARGIN.gap;
    const panel = spec.spec ?? spec; // a chart of one panel needs no facet
    spec.spacing = typeof spec.spacing === "number" ? gap : { row: 14, column: gap };
    panel.width = Math.floor((inner - gap * (panels - 1)) / panels);
    if (narrow && typeof panel.height === "number") panel.height = 130;
  }
  return spec;
}

function keepChoices(spec, view) {
  for (const param of view ? spec.params ?? [] : []) {
    if (param.bind) param.value = view.signal(param.name);
  }
  return spec;
}

async function draw(figure, original, shown) {
  const canvas = figure.querySelector(".canvas");
  const width = Math.floor(canvas.clientWidth);
  if (shown && Math.abs(shown.width - width) < 4) return shown;
  const spec = keepChoices(fit(original, width), shown?.result.view);
  const controls = figure.querySelector(".controls");
  shown?.result.finalize();
  controls.replaceChildren();
  const result = await vegaEmbed(canvas, spec, {
    actions: false,
    renderer: "svg",
    defaultStyle: false,
    bind: controls,
    tooltip: { disableDefaultStyle: true },
  });
  return { result, width };
}

function fail(figure, error) {
  figure.querySelector(".canvas").textContent = `This chart could not be drawn: ${error.message}`;
  console.error(error);
  return null;
}

for (const figure of document.querySelectorAll("figure.chart")) {
  let latest = Promise.resolve(null);
  const redraw = () => {
    latest = latest
      .then((shown) => {
        const original = JSON.parse(figure.querySelector("script").textContent);
        return draw(figure, original, shown);
      })
      .catch((error) => fail(figure, error));
  };
  let waiting = 0;
  new ResizeObserver(() => {
    clearTimeout(waiting);
    waiting = setTimeout(redraw, 80);
  }).observe(figure.querySelector(".canvas"));
}
