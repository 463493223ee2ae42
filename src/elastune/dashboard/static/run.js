"use strict";
(function () {
  const { el, fill, read, send, duration, usd, number, badge, table } = elastune;
  const plots = elastune.plots;
  const run = document.getElementById("run").dataset.run, api = `/api/runs/${run}`;
  let facts = null, moment = null, figures = null, trials = null, present = location.hash.slice(1) || "overview";
  let openErrors = false, drawn = {}, loading = false, again = false, against = "time";

  // -- Overview -------------------------------------------------------------------------------------------
  const gauge = (title, value, gauge_, show, more) => {
    const share = (x) => gauge_.full > 0 ? `${Math.min(100, 100 * x / gauge_.full).toFixed(1)}%` : "0%";
    const bar = el("div", { class: `bar ${gauge_.in_danger ? "danger" : ""}` }, el("span", { class: "fill" }));
    bar.firstChild.style.width = share(gauge_.now);
    if (gauge_.planned_now !== null) { const mark = el("span", { class: "mark", title: "the plan at this point" }); mark.style.left = share(gauge_.planned_now); bar.append(mark); }
    const details = [];
    if (gauge_.limit !== null) details.push(`of ${show(gauge_.limit)}`);
    if (gauge_.expected_end !== null && !moment.snapshot.is_over) details.push(`expected end ${show(gauge_.expected_end)}`);
    if (gauge_.planned_end !== null) details.push(`planned ${show(gauge_.planned_end)}`);
    if (gauge_.ahead) details.push(`${show(Math.abs(gauge_.ahead))} ${gauge_.ahead > 0 ? "more" : "less"} than planned by now`);
    if (more) details.push(more);
    return el("div", { class: "card" }, el("h3", {}, title), el("p", { class: "big" }, value), bar, el("p", { class: "muted" }, details.join(" · ")));
  };
  // What minimum charges still add to the money of young nodes.
  const owed = (now) => {
    const last = figures && figures.money.length ? figures.money[figures.money.length - 1][1] : 0;
    return last > 1.01 * now ? `${usd(last)} owed with minimum charges` : null;
  };
  const reading = () => moment !== null && moment.events < moment.total;
  function overview() {
    const s = moment.snapshot, cards = [gauge("Time", duration(s.time.now), s.time, duration)];
    if (s.money) cards.push(gauge("Money", usd(s.money.now), s.money, usd, reading() ? null : owed(s.money.now)));
    cards.push(el("div", { class: "card" }, el("h3", {}, `Best ${s.metric}`), el("p", { class: "big" }, s.best ? number(s.best.metric) : "–"),
      el("p", { class: "muted" }, s.best ? `trial ${s.best.trial} after iteration ${s.best.iteration}` : s.is_over ? "no model was saved" : "no model is saved yet")));
    const card = (title_, value, text) => el("div", { class: "card" }, el("h3", {}, title_), el("p", { class: "big" }, value), el("p", { class: "muted" }, text));
    const over = moment.state !== "running" && !reading();
    const most = figures ? Math.max(0, ...figures.nodes.map((step) => step[1] + step[2])) : null;
    cards.push(over ? card("Nodes at once", most === null ? "…" : String(most), figures ? `${figures.node_count} in all, none now` : "")
      : card("Nodes", String(s.nodes.up), `${s.nodes.busy} of ${s.nodes.up * s.nodes.slots_per_node} slots busy` + (s.nodes.booting ? `, ${s.nodes.booting} booting` : "")));
    cards.push(card("Trials", number(s.trials.drawn), over ? [s.trials.over === s.trials.drawn ? "all over" : `${number(s.trials.over)} over, ${number(s.trials.drawn - s.trials.over)} paused`, s.trials.failed ? `${s.trials.failed} failed` : null].filter(Boolean).join(", ")
      : `${s.trials.training} train, ${s.trials.waiting} wait, ${number(s.trials.over)} over` + (s.trials.failed ? `, ${s.trials.failed} failed` : "")));
    const stages = s.stages.length ? [el("h2", {}, s.stage_word === "round" ? "Rounds" : "Stages"), table([
      { title: s.stage_word, value: (row) => row.name, words: true }, { title: "trials", value: (row) => row.trials },
      { title: "iterations", value: (row) => row.iterations }, { title: "nodes", value: (row) => row.nodes },
      { title: "planned", value: (row) => row.planned_end_s - row.planned_begin_s, show: (row) => duration(row.planned_end_s - row.planned_begin_s) },
      { title: "took", value: (row) => row.began_s === null ? null : (row.ended_s ?? s.now_s) - row.began_s, show: (row) => row.began_s === null ? "" : duration((row.ended_s ?? s.now_s) - row.began_s) },
      { title: "done", value: (row) => row.began_s === null ? 0 : row.share, show: (row) => { if (row.began_s === null && over) return el("span", { class: "muted" }, "not reached"); const bar = el("div", { class: "bar small" }, el("span", { class: "fill" })); bar.firstChild.style.width = `${100 * row.share}%`; return bar; } },
    ], s.stages, { tone: (row) => row.is_present ? "active" : "" })] : [];
    const empty = (text) => el("p", { class: "muted" }, text);
    const failed = s.trials.failed ? el("p", {}, el("button", { type: "button", onclick: () => { openErrors = true; history.replaceState(null, "", "#trials"); show("trials"); } }, `Why ${elastune.plural(s.trials.failed, "trial")} failed`)) : null;
    const next = over ? [el("h2", {}, "How it ended"), el("p", {}, elastune.STATE_SENTENCES[moment.state] || moment.state), failed,
        facts && facts.body === "ray" && s.best ? el("p", {}, el("a", { class: "button", href: `${api}/model.zip` }, "Download the best model")) : null]
      : [el("h2", {}, "What comes next"), s.upcoming.length ? el("ul", { class: "news" }, s.upcoming.map((each) => el("li", {}, el("time", {}, duration(each.at_s)), each.text))) : empty("Nothing has a time yet.")];
    const happened = [...s.happened].reverse().slice(0, 40);
    const news = [el("h2", {}, "What happened"), happened.length ? el("ul", { class: "news" }, happened.map((each) => el("li", { class: each.is_note ? "note" : "" }, el("time", {}, duration(each.at_s)), each.is_note ? `${each.topic}: ${each.text}` : each.text))) : empty("Nothing worth a line.")];
    const rounds = s.rounds.map((each) => el("p", {}, `epoch ${each.epoch}${each.epochs ? " of " + each.epochs : ""}: ${each.done} of ${each.visits} ${each.evaluates ? "evaluations" : "visits"} on ${each.workers} workers`));
    if (!drawn.overview) {
      drawn.overview = { cards: el("div", { class: "cards" }), best: el("div", { class: "plot" }), nodes: el("div", { class: "plot" }), money: el("div", { class: "plot" }), spent: el("div", { class: "plot" }), rest: el("div") };
      const o = drawn.overview;
      fill("overview", o.cards, el("div", { class: "plots" }, el("div", {}, el("h2", {}, "Best so far", s.money ? elastune.choice(["time", "money"], against, (word) => { against = word; pictures(); }, "against") : null), o.best), el("div", {}, el("h2", {}, "Nodes"), o.nodes),
        s.money ? el("div", {}, el("h2", {}, "Money"), o.money) : null), el("h2", {}, s.money ? "Where the money went" : "Where the time of the nodes went"), o.spent, o.rest);
    }
    fill(drawn.overview.cards, cards);
    fill(drawn.overview.rest, rounds, stages, el("div", { class: "columns" }, el("div", {}, next), el("div", {}, news)));
  }
  function title() {
    if (!facts || !moment) return;
    fill("title", el("h1", {}, facts.name, " ", badge(moment.state)), el("p", { class: "muted" },
      [`run ${facts.run}`, facts.why, facts.body === "ray" ? "real" : "simulated", `seed ${facts.seed}`, moment.state === "running" ? moment.snapshot.doing : null].filter(Boolean).join(" · ")));
    document.querySelector("[data-tab=log]").hidden = facts.body !== "ray";
    const share = moment.events / moment.total, bar = el("div", { class: "bar" }, el("span", { class: "fill" }));
    bar.firstChild.style.width = `${100 * share}%`;
    fill("reading", reading() ? [el("p", { class: "muted" }, `Reading the journal: ${number(moment.events)} of ${number(moment.total)} events. What is shown is the run up to there. `,
      moment.state === "running" ? `It has gone on to ${duration(moment.until_s)}.` : `${elastune.STATE_SENTENCES[moment.state] || ""} It took ${duration(moment.until_s)}${moment.best === null ? "" : `, best ${facts.metric} ${number(moment.best)}`}.`), bar] : null);
    document.title = `${moment.state === "running" ? "▶ " : ""}${facts.name} ${facts.run} · Elastune`;
  }

  // -- Steering -------------------------------------------------------------------------------------------
  function steer() {
    if (!elastune.mayChange || !facts || facts.body !== "ray") { fill("steer"); return; }
    const preview = (action, given) => send(`${api}/preview`, { action, given: given || {} });
    const ask = (label, action, fields, title_) => el("button", { type: "button", onclick: () => elastune.confirm(title_ || label, fields, (given) => preview(action, given)) }, label);
    const limits = [{ name: "deadline", label: "Deadline", example: "+30m or 2h" }, { name: "budget", label: "Budget", example: "+5 or 40" },
      { name: "trials", label: "Trials", example: "+8" }, { name: "max_nodes", label: "Most nodes", example: "4" }];
    const buttons = [];
    if (moment.state === "running") {
      buttons.push(ask("Extend", "extend", limits, "New limits for this run"), ask("Suspend", "suspend", []), ask("Stop", "stop", []));
      buttons.push(el("button", { type: "button", onclick: () => elastune.confirm("Stop a trial", [{ name: "trial", label: "Trial", example: "3" }], (given) => preview("stop-trial", given)) }, "Stop a trial"));
      buttons.push(el("button", { type: "button", onclick: () => elastune.confirm("Add a configuration", [{ name: "config", label: "Configuration, as JSON", example: '{"lr": 0.1}', rows: 3 }],
        (given) => { let config; try { config = JSON.parse(given.config); } catch { return Promise.reject(new Error("this is no JSON, such as {\"lr\": 0.1}")); } return preview("add", { config }); }) }, "Add a configuration"));
    } else {
      if (moment.state === "suspended" || moment.state === "interrupted") buttons.push(ask("Resume", "resume", []));
      buttons.push(ask("Extend", "extend", limits, "Go on with new limits"));
    }
    fill("steer", buttons);
  }

  // -- Tabs -----------------------------------------------------------------------------------------------
  const curveOptions = { x: "iterations", logX: false, logY: false, smoothing: 0, most: 60, highlight: null };
  function curves() {
    if (!figures) return;
    if (!drawn.curves) {
      const plot = el("div", { class: "plot" });
      const check = (label, key) => el("label", {}, el("input", { type: "checkbox", onchange: (event) => { curveOptions[key] = event.target.checked; curves(); } }), label);
      const controls = el("div", { class: "row controls" },
        el("label", {}, "against ", el("select", { onchange: (event) => { curveOptions.x = event.target.value; curves(); } }, el("option", { value: "iterations" }, "iterations"), el("option", { value: "seconds" }, "time"))),
        check("log x", "logX"), check("log y", "logY"),
        el("label", {}, "smoothing ", el("input", { type: "range", min: 0, max: 0.95, step: 0.05, value: 0, oninput: (event) => { curveOptions.smoothing = Number(event.target.value); curves(); } })),
        el("label", {}, "best ", el("select", { onchange: (event) => { curveOptions.most = Number(event.target.value); curves(); } }, [60, 10, 150, 300].map((n) => el("option", { value: n }, String(n))))),
        el("label", {}, "highlight trial ", drawn.highlight = el("input", { type: "text", inputmode: "numeric", class: "short", placeholder: "none", oninput: (event) => { const text = event.target.value.trim(); curveOptions.highlight = /^[0-9]+$/.test(text) ? Number(text) : null; curves(); } })));
      drawn.curves = plot;
      drawn.curveNote = el("p", { class: "muted" });
      fill("curves", controls, plot, drawn.curveNote);
    }
    drawn.curveNote.textContent = !figures.curves.length ? "" : `${Math.min(curveOptions.most, figures.curves.length)} of ${figures.trials} trials, the best in front; click a curve to highlight it`;
    plots.curves(drawn.curves, figures, curveOptions).then(() => {
      if (drawn.curves.dataset.listens) return;
      drawn.curves.dataset.listens = "yes";
      drawn.curves.on("plotly_click", (event) => {
        const trial = event.points[0].customdata;
        curveOptions.highlight = curveOptions.highlight === trial ? null : trial;
        drawn.highlight.value = curveOptions.highlight ?? "";
        curves();
      });
    });
  }
  function slots() {
    if (!figures) return;
    if (!drawn.slots) { drawn.slots = el("div", { class: "plot" }); fill("slots", el("p", { class: "muted" }, "Each row is a slot, each colour a trial: full while it trains, faint while it starts or saves, grey while it waits. Drag to zoom, double-click to see all."), drawn.slots, drawn.slotNote = el("p", { class: "muted" })); }
    const hidden = figures.gantt.hidden + figures.gantt.left_out;
    drawn.slotNote.textContent = hidden ? `${number(figures.gantt.hidden)} short boxes and ${number(figures.gantt.left_out)} nodes are left out.` : "";
    plots.gantt(drawn.slots, figures, new Map(figures.curves.map((curve) => [curve.trial, curve.config])));
  }
  function nodesTab() {
    if (!figures) return;
    const rows = [...figures.node_lives].reverse();
    fill("nodes", table([
      { title: "node", value: (row) => row.node, words: true },
      { title: "state", value: (row) => row.ended_s === null ? (row.ready_s === null ? "boots" : "up") : row.lost ? "lost" : "released", words: true },
      { title: "since", value: (row) => row.born_s, show: (row) => duration(row.born_s) },
      { title: "boot", value: (row) => row.ready_s === null ? null : row.ready_s - row.born_s, show: (row) => row.ready_s === null ? "" : duration(row.ready_s - row.born_s) },
      { title: "until", value: (row) => row.ended_s, show: (row) => row.ended_s === null ? "" : duration(row.ended_s) },
      ...(figures.is_free ? [] : [{ title: "per hour", value: (row) => row.usd_per_s * 3600, show: (row) => usd(row.usd_per_s * 3600) }, { title: "cost", value: (row) => row.usd, show: (row) => usd(row.usd) }]),
    ], rows));
  }
  async function trialsTab() {
    if (!facts) return;
    trials = await read(`${api}/trials`);
    const at = (key) => trials.keys.indexOf(key);
    const columns = trials.columns.map((title_, index) => ({ title: title_, value: (row) => row[index], words: typeof (trials.rows.find((row) => row[index] !== null) || [])[index] === "string",
      show: /_s$|seconds/.test(trials.keys[index]) ? (row) => row[index] === null ? "" : duration(row[index]) : trials.keys[index] === "cost" ? (row) => usd(row[index]) : undefined }));
    const statuses = [...new Set(trials.rows.map((row) => row[at("status")]))].sort();
    const filter = el("select", { "aria-label": "status", onchange: find }, el("option", { value: "" }, "all"), statuses.map((each) => el("option", { value: each }, each)));
    const search = el("input", { type: "search", placeholder: "Search trials", oninput: find });
    function find() { list.search(search.value, filter.value ? (row) => row[at("status")] === filter.value : null); }
    const list = table(columns, trials.rows, { sort: at("best_reported") < 0 ? 0 : at("best_reported"), descending: trials.rises, row: (row) => detail(row[at("trial")]) });
    const failures = el("div");
    fill("trials", el("div", { class: "row" }, search, filter, el("a", { class: "button", href: `${api}/trials.csv` }, "Download CSV"), facts.body === "ray" ? el("a", { class: "button", href: `${api}/model.zip` }, "Download the best model") : null), list, failures);
    listed = { list, failures, keys: trials.keys.join() };
    showFailures();
  }
  function showFailures() {
    const errors = Object.entries(trials.errors), known = listed.failures.querySelector("details");
    const isOpen = known ? known.open : openErrors;
    fill(listed.failures, errors.length ? el("details", { class: "trouble", open: isOpen }, el("summary", {}, `${elastune.plural(errors.length, "trial has", "trials have")} failed`), errors.slice(0, 50).map(([trial, text]) => [el("h3", {}, `trial ${trial}`), el("pre", {}, text)])) : null);
  }
  // While a run goes on: the same table with what one has typed and sorted.
  let listed = null;
  async function freshTrials() {
    if (trials && trials.rows.length > 2000 && performance.now() < listed.nextLook) return;  // a large table is seconds of work
    const fresh = await read(`${api}/trials`);
    if (listed) listed.nextLook = performance.now() + 10000;
    if (!listed || fresh.keys.join() !== listed.keys) { await trialsTab(); return; }
    trials = fresh;
    listed.list.update(trials.rows);
    showFailures();
  }
  function detail(trial) {
    const at = (key) => trials.keys.indexOf(key), row = trials.rows.find((each) => each[at("trial")] === trial);
    const values = trials.columns.map((title_, index) => [title_, row[index], trials.keys[index]]).filter((each) => each[1] !== null && each[2] !== "trial");
    const shownAs = (key, value) => /_s$|seconds/.test(key) ? duration(value) : key === "cost" ? usd(value) : number(value);
    const error = trials.errors[String(trial)], go = (name) => { dialog.close(); history.replaceState(null, "", `#${name}`); show(name); };
    const dialog = el("dialog", { class: "wide" }, el("h2", {}, `Trial ${trial}`), el("dl", {}, values.map(([title_, value, key]) => [el("dt", {}, title_), el("dd", {}, shownAs(key, value))])),
      error ? el("pre", {}, error) : null,
      el("div", { class: "row end" },
        el("button", { type: "button", onclick: () => { curveOptions.highlight = trial; go("curves"); if (drawn.highlight) drawn.highlight.value = trial; } }, "Its curve"),
        facts.body === "ray" ? el("button", { type: "button", onclick: () => { logged = trial; go("log"); } }, "Its log") : null,
        elastune.mayChange && facts.body === "ray" && moment.state === "running" ? el("button", { type: "button", onclick: () => { dialog.close(); elastune.confirm(`Stop trial ${trial}`, [], () => send(`${api}/preview`, { action: "stop-trial", given: { trial: String(trial) } })); } }, "Stop it") : null,
        el("button", { type: "button", class: "main", onclick: () => dialog.close() }, "Close")));
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }
  async function learned() {
    if (!figures) return;
    if (!document.querySelector("#learned *")) fill("learned", el("p", { class: "muted" }, "Being computed …"));
    const waiting = read(`${api}/importance`).catch((error) => ({ shares: {}, why: error.message }));
    const table_ = await read(`${api}/trials`);
    const names = table_.keys.filter((key) => key.startsWith("config/")), score = table_.keys.indexOf("best_reported"), number_ = table_.keys.indexOf("trial");
    const rows = table_.rows.filter((row) => score >= 0 && row[score] !== null).map((row) => ({ trial: row[number_], value: row[score], config: Object.fromEntries(names.map((name) => [name.slice(7), row[table_.keys.indexOf(name)]]).filter(([, value]) => value !== null)) }));
    const common = names.map((name) => name.slice(7)).filter((name) => rows.length && rows.every((row) => name in row.config) && new Set(rows.map((row) => String(row.config[name]))).size > 1);
    if (rows.length < 2 || !common.length) { fill("learned", el("p", { class: "muted" }, "Too few trials have a value yet.")); return; }
    const value = (row) => row.value;
    const ordered = [...rows].sort((a, b) => figures.rises ? b.value - a.value : a.value - b.value);
    const some = (most) => ordered.length <= most ? ordered : [...Array(most).keys()].map((index) => ordered[Math.round(index * (ordered.length - 1) / (most - 1))]);
    if (!document.querySelector("#learned .plot")) {
      const first = el("div", { class: "plot" });
      fill("learned", el("h2", {}, "Which hyperparameters matter"), el("p", { class: "muted" }, "being computed …"), el("h2", {}, "All trials"), first);
      plots.parallel(first, common.slice(0, 10), some(500), value, figures.rises, figures.metric);
    }
    const importance = await waiting;
    const ranked = [...common].sort((a, b) => (importance.shares[b] || 0) - (importance.shares[a] || 0));
    const places = { importance: el("div", { class: "plot" }), parallel: el("div", { class: "plot" }), contour: el("div", { class: "plot" }), slices: ranked.slice(0, 6).map(() => el("div", { class: "plot" })) };
    fill("learned", el("h2", {}, "Which hyperparameters matter"), el("p", { class: "muted" }, importance.why), Object.keys(importance.shares).length ? places.importance : null, el("h2", {}, "All trials"), places.parallel,
      el("h2", {}, "One by one"), el("div", { class: "plots" }, places.slices), ranked.length > 1 ? [el("h2", {}, "Two together"), places.contour] : null);
    if (Object.keys(importance.shares).length) plots.bars(places.importance, importance.shares);
    plots.parallel(places.parallel, ranked.slice(0, 10), some(500), value, figures.rises, figures.metric);
    places.slices.forEach((place, index) => plots.slices(place, ranked[index], some(1500), value, figures.rises, figures.metric));
    if (ranked.length > 1) {
      const pair = [ranked[0], ranked[1]], redraw = () => plots.contour(places.contour, pair, some(1500), value, figures.rises);
      const pick = (index) => el("select", { "aria-label": index ? "vertical" : "horizontal", onchange: (event) => { pair[index] = event.target.value; redraw(); } },
        ranked.map((name) => el("option", { value: name, selected: name === pair[index] }, name)));
      places.contour.before(el("div", { class: "row controls" }, pick(0), "and", pick(1)));
      redraw();
    }
  }
  let log = null, logged = null;
  function logTab(trial) {
    if (log) log.close();
    const chosen = el("input", { type: "text", inputmode: "numeric", value: trial ?? "last", "aria-label": "trial" });
    const none = el("p", { class: "muted" }, "Nothing was printed yet."), text = el("pre", { class: "log" }, none), go = () => { logged = chosen.value.trim() || "last"; logTab(logged); };
    fill("log", el("form", { class: "row", onsubmit: (event) => { event.preventDefault(); go(); } }, el("label", {}, "trial ", chosen), el("button", { type: "submit" }, "Show")), text);
    if (!facts) return;
    if (facts.body !== "ray") { text.textContent = "This run is simulated: its trials print nothing."; return; }
    log = new EventSource(`${api}/log/${encodeURIComponent(trial ?? "last")}`);
    log.addEventListener("line", (event) => { none.remove(); const atEnd = text.scrollTop + text.clientHeight > text.scrollHeight - 40; text.append(JSON.parse(event.data)); while (text.childNodes.length > 5000) text.firstChild.remove(); if (atEnd) text.scrollTop = text.scrollHeight; });
    log.addEventListener("trouble", (event) => { text.append(JSON.parse(event.data).error); log.close(); });
    log.addEventListener("end", () => { none.textContent = "It printed nothing."; log.close(); });
    log.onerror = () => { none.textContent = "There is no log of this trial."; log.close(); };
  }
  function jobTab() {
    if (!facts) return;
    fill("job", facts.promise ? el("p", {}, `Promised with ${Math.round(100 * facts.confidence)} % confidence: ${duration(facts.promise.seconds)}${facts.is_free ? "" : " and " + usd(facts.promise.usd)}.`) : null,
      el("p", { class: "muted" }, facts.folder), el("p", {}, el("code", {}, facts.commands.status)),
      el("div", { class: "row" }, el("a", { class: "button", href: `/ask#${facts.run}` }, "Ask for a quote of this job")), el("pre", {}, facts.job));
  }
  const TABS = { overview: () => moment && overview(), curves, slots, trials: trialsTab, learned, nodes: nodesTab, log: () => logTab(logged), job: jobTab };
  function show(name) {
    present = TABS[name] ? name : "overview";
    for (const button of document.querySelectorAll("[data-tab]")) {
      button.setAttribute("aria-selected", String(button.dataset.tab === present));
      if (button.dataset.tab === present) button.parentNode.scrollLeft = button.offsetLeft - button.parentNode.offsetLeft - 60;  // on a phone not all fit
    }
    for (const panel of document.querySelectorAll(".tab")) panel.hidden = panel.id !== present;
    refresh();
  }
  function refresh() {
    Promise.resolve().then(TABS[present]).then(() => present === "overview" && figures && pictures()).catch((error) => elastune.toast(error.message, "bad"));
  }
  function pictures() {
    if (!drawn.overview) return;
    plots.best(drawn.overview.best, [figures], against, 260);
    plots.nodes(drawn.overview.nodes, figures);
    plots.spent(drawn.overview.spent, figures);
    if (!figures.is_free) plots.money(drawn.overview.money, figures);
  }
  async function load() {
    if (loading) { again = true; return; }
    loading = true;
    try {
      if (!facts) { facts = await read(`${api}/facts`); title(); steer(); if (present === "job" || present === "log") TABS[present](); }
      figures = await read(`${api}/figures`);
      if (["curves", "slots", "nodes"].includes(present)) TABS[present]();
      if (present === "overview") pictures();
      if (present === "overview" && moment) overview();
      if (present === "trials") await (listed ? freshTrials() : trialsTab());
      if (present === "learned" && !document.querySelector("#learned .plot")) learned();
    } catch (error) { fill("trouble", elastune.trouble(error)); }
    finally { loading = false; if (again) { again = false; setTimeout(load, 800); } }
  }
  for (const button of document.querySelectorAll("[data-tab]")) button.addEventListener("click", () => { history.replaceState(null, "", `#${button.dataset.tab}`); show(button.dataset.tab); });
  let stream = null, silent = null;
  const tabs = document.querySelector(".tabs");
  let seen = -1, state = "", pause = 750, nextFigures = 0;
  function take(event) {
    if (!moment) setTimeout(plots.load);
    moment = JSON.parse(event.data);
    tabs.hidden = false;
    fill("trouble");
    title();
    if (moment.state !== state) { state = moment.state; steer(); }
    if (present === "overview") overview();
    if (moment.events === seen) return;
    const isDue = !reading() || performance.now() > nextFigures;
    if (!isDue) return;
    if (reading()) { pause = Math.min(30000, 3 * pause); nextFigures = performance.now() + pause; }
    seen = moment.events;
    load();
  }
  // A browser opens at most six connections to a server: tabs that are not looked at hold none.
  function follow() {
    if (document.visibilityState === "hidden") { if (stream) stream.close(); stream = null; return; }
    if (stream) return;
    stream = new EventSource(`${api}/live`);
    stream.addEventListener("moment", take);
    stream.addEventListener("trouble", (event) => { fill("trouble", elastune.trouble(JSON.parse(event.data).error)); if (!moment) tabs.hidden = true; });
    stream.onopen = () => clearTimeout(silent);
    stream.onerror = () => {  // it tries again by itself, unless it was refused
      clearTimeout(silent);
      silent = setTimeout(() => fill("trouble", elastune.trouble(elastune.SILENT)), stream && stream.readyState === EventSource.CLOSED ? 0 : 4000);
    };
  }
  document.addEventListener("visibilitychange", follow);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);  // plots do not take their colours from the style sheet
  follow();
  show(present);
})();
