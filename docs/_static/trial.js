// Filters for the tables of claims. Without this script all rows stand there; with it the choice is in the URL.
document.addEventListener("DOMContentLoaded", () => {
  const tables = [...document.querySelectorAll("table.trial")];
  if (!tables.length) return;
  const rows = tables.flatMap((table) => [...table.tBodies[0].rows]);
  const text = (row, column) => row.cells[column].textContent.trim();
  const columns = [["paper", 2, "Paper"], ["verdict", 3, "Verdict"], ["severity", 4, "If it fails"]];
  const form = document.createElement("form");
  form.className = "trial-filters";
  form.setAttribute("role", "search");
  form.addEventListener("submit", (event) => event.preventDefault());
  const fields = {};
  const add = (name, label, field) => {
    const wrap = document.createElement("label");
    wrap.append(label + " ", field);
    field.name = name;
    form.append(wrap);
    fields[name] = field;
  };
  for (const [name, column, label] of columns) {
    const select = document.createElement("select");
    select.append(new Option("all", ""));
    for (const value of new Set(rows.map((row) => text(row, column)))) {
      if (value !== "–") select.append(new Option(value, value));
    }
    add(name, label, select);
  }
  const words = document.createElement("input");
  words.type = "search";
  add("words", "Words", words);
  const count = document.createElement("output");
  count.setAttribute("aria-live", "polite");
  const all = document.createElement("button");
  all.type = "button";
  all.textContent = "Show all";
  form.append(all, count);
  const show = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const fits =
        columns.every(([name, column]) => !fields[name].value || text(row, column) === fields[name].value) &&
        wanted.every((word) => row.textContent.toLowerCase().includes(word));
      row.hidden = !fits;
      shown += fits;
    }
    count.textContent = `${shown} of ${rows.length} claims`;
  };
  const write = () => {
    const state = new URLSearchParams();
    for (const [name, field] of Object.entries(fields)) if (field.value) state.set(name, field.value);
    history.replaceState(null, "", state.size ? `#${state}` : location.pathname + location.search);
    show();
  };
  const read = () => {
    const state = new URLSearchParams(location.hash.slice(1));
    for (const [name, field] of Object.entries(fields)) {
      field.value = state.get(name) ?? "";
      if (field.selectedIndex === -1) field.value = "";
    }
    show();
  };
  form.addEventListener("input", write);
  all.addEventListener("click", () => { form.reset(); write(); });
  window.addEventListener("hashchange", read);
  tables[0].closest("section").before(form);
  read();
});
