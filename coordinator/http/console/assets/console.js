// What the pages do beyond links and forms: live events, the plot, keys. No script stands in a page.
"use strict";

(function () {
  const byId = (id) => document.getElementById(id);

  // A refresh changes what differs, and leaves forms and the plot as their reader has them.
  Idiomorph.defaults.callbacks.beforeNodeMorphed = (node) => !(node.matches && node.matches("[data-keep]"));

  // Forms go as JSON: what a page of another origin can send without asking is refused by the daemon.
  htmx.defineExtension("json", {
    onEvent: (name, event) => {
      if (name === "htmx:configRequest") event.detail.headers["Content-Type"] = "application/json";
      return true;
    },
    encodeParameters: (xhr, parameters) => {
      const body = {};
      parameters.forEach((value, name) => { body[name] = value; });
      return JSON.stringify(body);
    },
  });

  // An empty filter is left out of the address: the daemon takes no parameter without a value of its kind.
  document.body.addEventListener("htmx:configRequest", (event) => {
    const { parameters, verb, elt } = event.detail;
    if (verb === "get" && elt.matches("form")) {
      for (const name of Object.keys(parameters)) if (parameters[name] === "") delete parameters[name];
    }
  });
  document.addEventListener("submit", (event) => {
    if (event.target.matches("form.filter")) event.preventDefault();
  });

  // Refusals are shown where a form asks for it; elsewhere the page stays as it was.
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target.hasAttribute("data-shows-errors")) {
      event.detail.shouldSwap = true;
      event.detail.isError = false;
    }
  });
  document.body.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target.hasAttribute("data-shows-errors") && byId("live")) htmx.trigger(document.body, "news");
  });

  // A page that nobody sees asks for nothing, nor does one whose reader is about to press a button in it.
  document.body.addEventListener("htmx:beforeRequest", (event) => {
    if (event.detail.elt.id === "live" && document.hidden) event.preventDefault();
  });

  function told(isLive) {
    const link = byId("link");
    const state = isLive ? "live" : "lost";
    if (link && link.dataset.state !== state) {
      link.dataset.state = state;
      byId("link-text").textContent = isLive ? "live" : "no answer";
    }
  }
  document.body.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.elt.id === "live") told(event.detail.xhr.status > 0 && event.detail.xhr.status < 500);
  });

  // Events of the daemon refresh the page at once; it refreshes by itself now and then in any case.
  const live = byId("live");
  if (live && window.EventSource) {
    const group = live.dataset.group;
    const source = new EventSource("/v1/events" + (group ? "?group=" + encodeURIComponent(group) : ""));
    let due = 0;
    const refresh = () => {
      window.clearTimeout(due);
      due = window.setTimeout(() => htmx.trigger(document.body, "news"), 150);
    };
    for (const name of ["note", "problem.opened", "problem.closed", "gap"]) source.addEventListener(name, refresh);
    window.addEventListener("pagehide", () => source.close());
  }

  // A link from another site comes without the cookie (SameSite=Strict), and so to the form. A page that our own page asks
  // for has it. Once for each path: if that does not help, the form stays.
  if (byId("login")) {
    const path = location.pathname + location.search;
    if (sessionStorage.getItem("entered") !== path) {
      fetch("/console/session").then((answer) => {
        if (!answer.ok) return;
        sessionStorage.setItem("entered", path);
        location.replace(path);
      }, () => {});
    }
  } else {
    sessionStorage.removeItem("entered");
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.copy !== undefined) {
      const done = () => {
        button.textContent = "Copied";
        window.setTimeout(() => { button.textContent = "Copy"; }, 1500);
      };
      if (navigator.clipboard) navigator.clipboard.writeText(button.dataset.copy).then(done, () => {});
    }
    if (button.dataset.empties) byId(button.dataset.empties).replaceChildren();
  });

  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.matches("input, select, textarea");
    if (event.key === "/" && !isTyping && byId("q")) {
      event.preventDefault();
      byId("q").focus();
    }
    if (event.key === "Escape" && event.target.id === "q") event.target.blur();
  });

  // The field for a value is there for targets that have one.
  const target = byId("target");
  if (target) {
    const choose = () => {
      const wants = target.selectedOptions[0].dataset.wants;
      byId("value-label").hidden = !wants;
      byId("value").placeholder = wants;
      if (!wants) byId("value").value = "";
    };
    target.addEventListener("change", choose);
    choose();
  }

  const plot = byId("plot");
  if (plot && window.uPlot) {
    let chart = null;
    const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const number = (value) => (value == null ? "–" : Math.round(value).toLocaleString("en"));
    const axis = (more) => ({
      stroke: () => colour("--soft"), grid: { stroke: () => colour("--line"), width: 1 }, ticks: { show: false },
      font: "12px system-ui", ...more,
    });
    const brief = (value) => {
      for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
        if (Math.abs(value) >= size) return (value / (unit === "k" ? 1e3 : size)).toPrecision(3) + " " + unit;
      }
      return String(Math.round(value * 10) / 10);
    };
    const options = (width) => ({
      width, height: 240, tzDate: (s) => uPlot.tzDate(new Date(s * 1000), "Etc/UTC"), cursor: { drag: { x: false, y: false } },
      scales: { x: { time: true }, lag: { range: (u, low, high) => [0, Math.max(high, 10) * 1.1] }, rate: { range: (u, low, high) => [0, Math.max(high, 1) * 1.1] } },
      series: [
        { label: "UTC", value: (u, s) => (s == null ? "–" : new Date(s * 1000).toISOString().slice(11, 19)) },
        { label: "Lag, records", scale: "lag", stroke: () => colour("--join"), width: 2, spanGaps: false, value: (u, v) => number(v) },
        { label: "Consumed a second", scale: "rate", stroke: () => colour("--sync"), width: 2, spanGaps: false, value: (u, v) => number(v) },
      ],
      axes: [
        axis({ values: (u, splits) => splits.map((s) => new Date(s * 1000).toISOString().slice(11, 19)), space: 90 }),
        axis({ scale: "lag", values: (u, splits) => splits.map(brief), size: 60 }),
        axis({ scale: "rate", side: 1, values: (u, splits) => splits.map(brief), size: 60, grid: { show: false } }),
      ],
    });
    const rates = (samples) => samples.map(([ms, , sum], at) => {
      if (at === 0 || sum == null || samples[at - 1][2] == null || ms <= samples[at - 1][0]) return null;
      return Math.max(0, (sum - samples[at - 1][2]) * 1000 / (ms - samples[at - 1][0]));
    });
    const draw = async () => {
      if (document.hidden) return;
      const answer = await fetch(plot.dataset.url).catch(() => null);
      if (!answer || !answer.ok) return;
      const { samples } = await answer.json();
      const data = [samples.map((one) => one[0] / 1000), samples.map((one) => one[1]), rates(samples)];
      const hasNumbers = samples.some((one) => one[1] != null);
      byId("plot-none").hidden = hasNumbers;
      if (!hasNumbers) return;
      const width = plot.clientWidth - 24;
      if (chart) chart.setData(data);
      else if (width > 0) chart = new uPlot(options(width), data, plot);
      plot.dataset.samples = String(samples.length);
    };
    new ResizeObserver(() => { if (chart) chart.setSize({ width: plot.clientWidth - 24, height: 240 }); }).observe(plot);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (chart) chart.redraw(); });
    draw();
    window.setInterval(draw, 2000);
  }
})();
