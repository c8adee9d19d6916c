"use strict";
const $ = id => document.getElementById(id);
const SHOWN = 100;

function element(name, parent, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent?.append(made);
  return made;
}

function say(text, bad = false) {
  $("said").textContent = text;
  $("said").classList.toggle("bad", bad);
}

/** Thrown when the service wants a token. */
class NoToken extends Error {}

// Until the tab is closed, and for this page alone.
const token = {
  get: () => sessionStorage.getItem("token"),
  set: text => sessionStorage.setItem("token", text),
  remove: () => sessionStorage.removeItem("token"),
};

/** A request with JSON; throws what the service says against it. */
async function ask(method, path, body) {
  const options = { method, headers: { "Content-Type": "application/json" } };
  if (token.get()) options.headers.Authorization = "Bearer " + token.get();
  if (body !== undefined) options.body = JSON.stringify(body);
  const answer = await fetch(path, options);
  const told = await answer.json();
  if (answer.status == 401) throw new NoToken(told.error);
  if (!answer.ok) throw new Error(told.error);
  return told;
}

function showLogin(error) {
  const asked = token.get() !== null;
  token.remove();
  $("login").hidden = false;
  $("content").hidden = true;
  $("logout").hidden = true;
  $("login-said").textContent = asked ? error.message : "";
  $("link").textContent = "not logged in";
  $("link").className = "lost";
}

/** A list with its search and its page: the beginning, or what comes after a number. */
class List {
  constructor(name) {
    this.name = name;
    this.search = "";
    this.after = null;
    this.next = null;
    $(name + "-search").onsubmit = event => {
      event.preventDefault();
      this.search = event.target.elements.search.value.trim();
      this.go(null);
    };
    const pages = $(name + "-pages");
    pages.querySelector(".first").onclick = () => this.go(null);
    pages.querySelector(".next").onclick = () => this.go(this.next);
  }

  go(after) {
    this.after = after;
    refresh();
  }

  query() {
    const query = new URLSearchParams({ limit: SHOWN });
    if (this.search) query.set("search", this.search);
    if (this.after !== null) query.set("after", this.after);
    return query;
  }

  /** `next`: the number that the next page begins after. */
  shown(next, found) {
    this.next = next;
    const pages = $(this.name + "-pages");
    pages.hidden = next === null && this.after === null;
    pages.querySelector(".first").disabled = this.after === null;
    pages.querySelector(".next").disabled = next === null;
    pages.querySelector("span").textContent = this.after === null ? "" : `after number ${this.after}`;
    $(this.name + "-empty").textContent = found ? "" : next !== null ? "Nothing so far: the next page goes on." : this.search ? `Nothing has “${this.search}” in it.` : EMPTY[this.name];
  }
}

const EMPTY = { pending: "Nothing is waiting.", dead: "Nothing has given up." };

/** Does something, says how it went, and looks again. */
async function act(work, done) {
  try {
    say((await work()) ?? done);
  } catch (error) {
    say(error.message, true);
  }
  await refresh();
}

const jobs = key => "/jobs?key=" + encodeURIComponent(key);

function inTime(ms) {
  if (ms <= 0) return "now";
  const s = ms / 1000;
  if (s < 60) return "in " + s.toFixed(1) + " s";
  if (s < 3600) return `in ${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 86400) return `in ${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`;
  return `in ${Math.floor(s / 86400)} d ${Math.floor(s % 86400 / 3600)} h`;
}

// The service's clock minus this page's.
let ahead = 0;

function button(parent, text, label, work, danger) {
  const made = element("button", parent, text, { type: "button", "aria-label": label });
  if (danger) made.className = "danger";
  made.onclick = work;
  return made;
}

function address(cell, job) {
  cell.className = "to";
  cell.textContent = job.callback;
  element("small", cell, job.payload);
}

function moveForm(cell, job) {
  if (cell.querySelector("form")) return;
  const form = element("form");
  cell.prepend(form);
  const input = element("input", form, undefined, { type: "number", min: 0, step: "any", value: 60, required: "", "aria-label": `Seconds from now for ${job.key}` });
  element("button", form, "s from now", { type: "submit" });
  form.onsubmit = event => {
    event.preventDefault();
    form.remove();
    act(async () => void await ask("PATCH", jobs(job.key), { delay_ms: Math.round(input.value * 1000) }), `${job.key} is moved`);
  };
  input.onkeydown = event => { if (event.key == "Escape") form.remove(); };
  input.select();
}

function pendingRow(job) {
  const row = element("tr");
  element("td", row, job.key ?? "(no key)", { class: "key" });
  element("td", row, "", { class: "due" });
  element("span", element("td", row), "", { class: "state" });
  address(element("td", row), job);
  const cell = element("td", row, undefined, { class: "do" });
  if (job.key !== null) {
    button(cell, "Move", `Move ${job.key}`, () => moveForm(cell, job));
    button(cell, "Cancel", `Cancel ${job.key}`, () => act(async () => void await ask("DELETE", jobs(job.key)), `${job.key} is cancelled`), true);
  }
  return row;
}

function updatePending(row, job) {
  const due = row.querySelector(".due");
  due.dataset.due = job.due_ms;
  due.title = new Date(job.due_ms).toLocaleString();
  const state = row.querySelector(".state");
  state.className = "state " + job.state;
  state.textContent = job.failed ? `${job.state}, failed ${job.failed}` : job.state;
  if (job.every_ms) state.textContent += `, every ${job.every_ms / 1000} s`;
  state.title = job.error ?? "";
  for (const one of row.querySelectorAll("td.do > button")) one.disabled = job.state == "calling";
}

function deadRow(job) {
  const row = element("tr");
  element("td", row, job.key ?? "(no key)", { class: "key" });
  address(element("td", row), job);
  element("td", row, job.failed);
  element("td", row, job.error, { class: "error" });
  const cell = element("td", row, undefined, { class: "do" }), name = job.key ?? job.dead;
  button(cell, "Revive", `Revive ${name}`, () => act(async () => void await ask("POST", "/dead/" + job.dead), `${name} is tried again`));
  button(cell, "Discard", `Discard ${name}`, () => act(async () => void await ask("DELETE", "/dead/" + job.dead), `${name} is discarded`), true);
  return row;
}

/** Rows stay the same elements as long as their job is there: what somebody types in one is not lost. */
function fill(table, list, identify, make, update) {
  const body = table.tBodies[0], old = new Map();
  for (const row of body.rows) old.set(row.dataset.id, row);
  let place = body.firstElementChild;
  for (const job of list) {
    const id = identify(job);
    let row = old.get(id);
    if (row) old.delete(id);
    else {
      row = make(job);
      row.dataset.id = id;
    }
    update?.(row, job);
    if (row == place) place = place.nextElementSibling;
    else body.insertBefore(row, place);
  }
  for (const row of old.values()) row.remove();
  table.hidden = list.length == 0;
  $(table.id + "-empty").hidden = list.length > 0;
}

function countDown() {
  const now = Date.now() + ahead;
  for (const cell of document.querySelectorAll("td.due")) cell.textContent = inTime(cell.dataset.due - now);
}

async function refresh() {
  try {
    const [waits, failed] = await Promise.all([ask("GET", "/jobs?" + pending.query()), ask("GET", "/dead?" + dead.query())]);
    ahead = waits.now_ms - Date.now();
    fill($("pending"), waits.jobs, job => job.number, pendingRow, updatePending);
    fill($("dead"), failed.dead, job => job.dead, deadRow);
    countDown();
    // The list of the earliest is one page; the others are in the order of their numbers.
    const earliest = !pending.search && pending.after === null;
    pending.shown(earliest ? (waits.pending > waits.jobs.length ? "0" : null) : waits.next, waits.jobs.length);
    dead.shown(failed.next, failed.dead.length);
    $("pending-count").textContent = waits.pending;
    $("dead-count").textContent = failed.dead.length + (failed.next === null ? "" : "+");
    $("bulk").hidden = failed.dead.length == 0;
    const which = dead.search ? "all found" : "all";
    for (const name of ["revive", "discard"]) if (!$(name + "-all").dataset.sure) $(name + "-all").textContent = `${name == "revive" ? "Revive" : "Discard"} ${which}`;
    $("link").textContent = "connected";
    $("link").className = "";
    $("login").hidden = true;
    $("content").hidden = false;
    $("logout").hidden = token.get() === null;
  } catch (error) {
    if (error instanceof NoToken) return showLogin(error);
    $("link").textContent = "the service does not answer";
    $("link").className = "lost";
  }
}

/** A button for many at once asks to be pressed a second time. */
function bulk(name, method, done) {
  const made = $(name);
  made.onclick = async () => {
    if (!made.dataset.sure) {
      made.dataset.sure = "yes";
      made.textContent = "Sure?";
      setTimeout(() => { delete made.dataset.sure; refresh(); }, 4000);
      return;
    }
    delete made.dataset.sure;
    let count = 0;
    const query = new URLSearchParams({ all: true });
    if (dead.search) query.set("search", dead.search);
    try {
      count = (await ask(method, "/dead?" + query)).count;
      say(`${count} ${done}`);
    } catch (error) {
      say(error.message, true);
    }
    dead.go(null);
  };
}

const pending = new List("pending"), dead = new List("dead");
bulk("revive-all", "POST", "are tried again");
bulk("discard-all", "DELETE", "are discarded");

$("login-form").onsubmit = event => {
  event.preventDefault();
  token.set(event.target.elements.token.value.trim());
  event.target.elements.token.value = "";
  refresh();
};

$("logout").onclick = () => {
  token.remove();
  refresh();
};

$("new").onsubmit = event => {
  event.preventDefault();
  const fields = event.target.elements;
  act(async () => {
    const job = { callback: fields.callback.value, delay_ms: Math.round(fields.delay.value * fields.unit.value) };
    if (fields.key.value) job.key = fields.key.value;
    if (fields.replace.checked) job.replace = true;
    if (fields.payload.value.trim()) {
      try {
        job.payload = JSON.parse(fields.payload.value);
      } catch (error) {
        throw new Error("the payload is no JSON: " + error.message);
      }
    }
    const made = await ask("POST", "/jobs", job);
    fields.key.value = "";
    event.target.dataset.made = made.key;
    if (made.result == "kept") return `this job waits already under ${made.key}`;
  }, "scheduled");
};

// One after the other, also when the service is slow.
async function watch() {
  await refresh();
  setTimeout(watch, 1000);
}
setInterval(countDown, 100);
watch();
