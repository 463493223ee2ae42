"use strict";
// Small parts of all pages. Texts of runs become text nodes, never markup.

const elastune = {};

elastune.el = function (name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "value") node.value = value;
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
};

elastune.fill = function (place, ...children) {
  const target = typeof place === "string" ? document.getElementById(place) : place;
  target.replaceChildren(...children.flat(Infinity).filter((each) => each !== null && each !== undefined));
  return target;
};

elastune.duration = function (seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const sign = seconds < 0 ? "-" : "";
  const s = Math.abs(seconds);
  if (s < 60) return sign + (s < 10 ? s.toFixed(1) : Math.round(s)) + " s";
  const whole = Math.round(s);
  const h = Math.floor(whole / 3600), m = Math.floor((whole % 3600) / 60), rest = whole % 60;
  const two = (x) => String(x).padStart(2, "0");
  return sign + (h ? `${h}h${two(m)}m` : `${m}m${two(rest)}s`);
};

elastune.usd = function (value) {
  if (value === null || value === undefined) return "–";
  const digits = Math.abs(value) >= 100 ? 0 : 2;
  return "$" + value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
};

elastune.number = function (value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  if (Math.abs(value) < 1e-3) return value.toExponential(3).replace(/\.?0*e/, "e");
  return Number(value.toPrecision(5)).toString();
};

elastune.plural = (count, one, many) => `${elastune.number(count)} ${count === 1 ? one : many || one + "s"}`;

// How a column shows its numbers: all with as many places, so that they can be compared at a glance.
elastune.columnFormat = function (values) {
  const numbers = values.filter((value) => typeof value === "number" && value !== 0).map(Math.abs);
  if (!numbers.length || numbers.every(Number.isInteger)) return elastune.number;
  const high = numbers.reduce((a, b) => Math.max(a, b)), low = numbers.reduce((a, b) => Math.min(a, b));
  if (high >= 1e6 || low < 1e-3) return elastune.number;
  const decimals = (value) => (elastune.number(value).split(".")[1] || "").length;
  const places = Math.min(high >= 1000 ? 1 : high >= 10 ? 3 : 5, numbers.map(decimals).reduce((a, b) => Math.max(a, b)));
  return (value) => typeof value === "number" ? value.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places }) : elastune.number(value);
};

const meta = (name) => (document.querySelector(`meta[name="${name}"]`) || {}).content || "";
elastune.mayChange = meta("elastune-token") !== "";

elastune.SILENT = "The dashboard does not answer. One that was started beside a run ends with it: start `elastune dashboard` and open the address that it prints.";
async function fetched(path, options) {
  try {
    return await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    throw error.name === "AbortError" ? error : new Error(elastune.SILENT);
  }
}

elastune.read = async function (path) {
  const answer = await fetched(path);
  const data = await answer.json().catch(() => ({ error: `the server answered ${answer.status}` }));
  if (!answer.ok) throw new Error(data.error || `the server answered ${answer.status}`);
  return data;
};

elastune.send = async function (path, body, signal) {
  const answer = await fetched(path, {
    method: "POST",
    signal,
    headers: { "content-type": "application/json", "x-elastune-token": meta("elastune-asking-token") },
    body: JSON.stringify(body),
  });
  const data = await answer.json().catch(() => ({ error: `the server answered ${answer.status}` }));
  if (!answer.ok) throw new Error(data.error || `the server answered ${answer.status}`);
  return data;
};

elastune.toast = function (text, kind) {
  const { el } = elastune;
  const toast = el("div", { class: `toast ${kind || ""}`, role: "status" }, text);
  document.getElementById("toasts").append(toast);
  setTimeout(() => toast.remove(), kind === "bad" ? 12000 : 6000);
};

// Some words of which one is chosen.
elastune.choice = function (words, chosen, choose, label) {
  const { el } = elastune;
  const buttons = words.map((word) => el("button", { type: "button", "aria-pressed": String(word === chosen),
    onclick: () => { buttons.forEach((each) => each.setAttribute("aria-pressed", String(each.textContent === word))); choose(word); } }, word));
  return el("span", { class: "choice", role: "group", "aria-label": label }, buttons);
};

elastune.trouble = (error) => elastune.el("p", { class: "trouble", role: "alert" }, error.message || String(error));

// Asks for what will happen, shows it, and sends it after a yes.
elastune.confirm = function (title, fields, preview, done) {
  const { el } = elastune;
  const inputs = {};
  const rows = fields.map((field) => {
    inputs[field.name] = el(field.rows ? "textarea" : "input", {
      name: field.name, placeholder: field.example, rows: field.rows, autocomplete: "off",
    });
    return el("label", {}, el("span", {}, field.label), inputs[field.name]);
  });
  const told = el("p", { class: "told" });
  const go = el("button", { type: "submit", class: "main" }, fields.length ? "Preview" : "Yes");
  let ticket = null;
  const ask = async () => {
    const given = Object.fromEntries(Object.entries(inputs).map(([key, input]) => [key, input.value.trim()]));
    told.textContent = "…";
    try {
      const found = await preview(given);
      ticket = found.ticket;
      told.textContent = found.text;
      told.className = "told" + (found.spends_money ? " money" : "");
      go.textContent = "Yes, do it";
    } catch (error) {
      ticket = null;
      told.textContent = error.message;
      told.className = "told bad";
    }
  };
  const form = el("form", { method: "dialog" }, el("h2", {}, title), rows, told,
    el("div", { class: "row end" }, el("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), go));
  for (const input of Object.values(inputs)) {
    input.addEventListener("input", () => { ticket = null; go.textContent = "Preview"; });
  }
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (ticket === null) { await ask(); return; }
    try {
      const answer = await elastune.send("/api/carry-out", { ticket });
      elastune.toast(answer.text, "good");
      dialog.close();
      if (done) done();
    } catch (error) {
      ticket = null;
      told.textContent = error.message;
      told.className = "told bad";
      go.textContent = "Preview";
    }
  });
  const dialog = el("dialog", {}, form);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  if (!fields.length) ask();
};

elastune.STATE_TONES = {
  running: "active", complete: "good", target: "good", deadline: "warn", budget: "warn",
  stopped: "muted", suspended: "muted", failed: "bad", interrupted: "bad",
};
elastune.STATE_SENTENCES = {
  complete: "The search is complete.", target: "The target was reached.", deadline: "The deadline ended it.", budget: "The budget ended it.",
  stopped: "It was stopped on request.", suspended: "It is suspended: no nodes are held, and it can be resumed.", failed: "It failed: no trial could go on.",
  interrupted: "Its process died. Resume it: it goes on from its checkpoints.",
};
elastune.STATE_WORDS = { interrupted: "died" };
elastune.badge = (state) => elastune.el(
  "span", { class: `badge ${elastune.STATE_TONES[state] || ""}` }, elastune.STATE_WORDS[state] || state);

// A table that sorts by its heads and shows some hundred rows at a time.
elastune.table = function (columns, rows, options) {
  const { el } = elastune;
  const settings = Object.assign({ most: 200, sort: null, descending: true, row: null }, options);
  let query = "", only = null, shown = settings.most;
  const formats = columns.map((column) => column.show ? null : elastune.columnFormat(rows.map(column.value)));
  const body = el("tbody"), more = el("button", { type: "button", class: "more" });
  const head = el("tr", {}, columns.map((column, index) => el("th", {
    class: column.words ? "words" : "", tabindex: 0, title: "Sort",
    onclick: () => sortBy(index), onkeydown: (event) => { if (event.key === "Enter") sortBy(index); },
  }, column.title)));
  function sortBy(index) {
    settings.descending = settings.sort === index ? !settings.descending : !columns[index].words;
    settings.sort = index;
    draw();
  }
  const compare = (a, b) => {
    if (a === null || a === undefined) return 1;
    if (b === null || b === undefined) return -1;
    const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
    return settings.descending ? -order : order;
  };
  function draw() {
    let chosen = only ? rows.filter(only) : rows;
    if (query) {
      const words = query.toLowerCase().split(/\s+/);
      chosen = chosen.filter((row) => {
        const text = columns.map((column) => column.text ? column.text(row) : column.value(row)).join(" ").toLowerCase();
        return words.every((word) => text.includes(word));
      });
    }
    if (settings.sort !== null) {
      const value = columns[settings.sort].value;
      chosen = [...chosen].sort((a, b) => compare(value(a), value(b)));
    }
    [...head.children].forEach((cell, index) => {
      cell.dataset.sorted = index === settings.sort ? (settings.descending ? "down" : "up") : "";
    });
    body.replaceChildren(...chosen.slice(0, shown).map((row) => {
      const line = el("tr", { class: settings.tone ? settings.tone(row) : "" }, columns.map((column, index) => {
        const content = column.show ? column.show(row) : formats[index](column.value(row));
        return el("td", { class: column.words ? "words" : "", "data-title": column.title }, content);
      }));
      if (settings.row) { line.classList.add("link"); line.addEventListener("click", (event) => { if (!event.target.closest("a, input")) settings.row(row); }); }
      return line;
    }));
    more.hidden = chosen.length <= shown;
    more.textContent = `${(chosen.length - shown).toLocaleString("en-US")} more`;
  }
  more.addEventListener("click", () => { shown += settings.most; draw(); });
  draw();
  const frame = el("div", { class: `scroll ${settings.stacks ? "stacks" : ""}` }, el("table", {}, el("thead", {}, head), body), more);
  frame.search = (text, filter) => { query = text.trim(); only = filter || null; shown = settings.most; draw(); };
  frame.update = (fresh) => { rows = fresh; draw(); };
  return frame;
};
