// The page: files, a form that Python describes, and what a command gave. Python itself is in worker.js.

const $ = (id) => document.getElementById(id);
const element = (name, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
};
const sizeOf = (bytes) => {
  for (const unit of ["bytes", "KiB", "MiB"]) {
    if (bytes < 1024) return `${unit === "bytes" ? bytes : bytes.toFixed(1)} ${unit}`;
    bytes /= 1024;
  }
  return `${bytes.toFixed(1)} GiB`;
};

let worker, pending, forms = [], models = [], opened = [], command = "convert", isBusy = true, startedAt = 0, ticking = 0;

// The worker

function startWorker() {
  pending = new Map();
  // A worker from a blob has the policy of this page; one from a file would have that of the server.
  const source = `import ${JSON.stringify(new URL("worker.js", location.href).href)};`;
  const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  worker = new Worker(address, { type: "module" });
  const ready = new Promise((resolve, reject) => {
    worker.onerror = (event) => reject(new Error(event.message || "the worker cannot be loaded"));
    worker.onmessage = ({ data }) => {
      if (data.loaded) resolve();
      else if (data.task) tell(`${data.task} …`);
      else if (data.message !== undefined) addMessage(data.message);
      else finish(data);
    };
  });
  return ready.then(() => send("start", location.href));
}

function send(name, ...values) {
  const id = crypto.randomUUID ? crypto.randomUUID() : String(Math.random());
  return new Promise((resolve, reject) => {
    pending.set(id, { resolve, reject });
    worker.postMessage({ id, name, values });
  });
}

globalThis.sendToPython = send; // for tests and for the console

function finish({ id, result, error }) {
  const { resolve, reject } = pending.get(id);
  pending.delete(id);
  if (error === undefined) resolve(result);
  else reject(new Error(error));
}

async function begin() {
  setBusy("Starting …");
  try {
    const began = await startWorker();
    forms = began.forms;
    document.documentElement.dataset.ready = began.version;
    idle(`Ready: onnx2ir ${began.version}. Nothing leaves this page.`);
    return true;
  } catch (error) {
    fail(`This page cannot start Python: ${error.message}`);
    return false;
  }
}

// State

function tell(text) {
  $("status").textContent = text;
}

function setBusy(text, canCancel = false) {
  isBusy = true;
  startedAt = performance.now();
  clearInterval(ticking);
  $("status").classList.remove("bad");
  $("progress").hidden = false;
  $("cancel").hidden = !canCancel;
  $("run").disabled = true;
  tell(text);
}

function idle(text) {
  isBusy = !forms.length;
  $("progress").hidden = $("cancel").hidden = true;
  $("run").disabled = !models.length;
  tell(text);
}

function fail(text) {
  idle(text);
  $("status").classList.add("bad");
}

const secondsSince = () => `${((performance.now() - startedAt) / 1000).toFixed(1)} s`;

// Files

async function add(files) {
  if (isBusy || !files.length) return;
  setBusy("Reading files …", true);
  try {
    const { refusal, models: known } = await send("open", files);
    if (refusal) {
      idle("Not opened");
      showResult({ exit_code: 1, arguments: [], output: refusal, page: "", files: [] });
      return;
    }
    const before = new Set(models);
    opened = [...opened.filter(({ path }) => !files.some((file) => file.path === path)), ...files];
    models = known;
    idle(`${opened.length} file${opened.length === 1 ? "" : "s"} open`);
    showFiles();
    const fresh = models.filter((path) => !before.has(path));
    if (!models.length) {
      fail("There is no .onnx file and no .xml file of an IR among these files");
      return;
    }
    $("form").hidden = false;
    choose(command, fresh[0] ?? models[0]);
    await run("inspect", [fresh[0] ?? models[0]], {});
  } catch (error) {
    fail(error.message);
  }
}

function showFiles() {
  $("list").replaceChildren(...opened.map(({ path, file }) => element("li", {}, `${path} (${sizeOf(file.size)})`)));
  $("clear").hidden = !opened.length;
}

// The paths of dropped files and folders, which the browser gives entry by entry.
async function entriesOf(transfer) {
  const pairs = [];
  const walk = async (entry, prefix) => {
    if (entry.isFile) {
      pairs.push({ path: prefix + entry.name, file: await new Promise((resolve, reject) => entry.file(resolve, reject)) });
      return;
    }
    const reader = entry.createReader();
    for (;;) {
      const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!some.length) return;
      for (const inner of some) await walk(inner, `${prefix}${entry.name}/`);
    }
  };
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  for (const entry of entries) await walk(entry, "");
  return entries.length ? pairs : [...transfer.files].map((file) => ({ path: file.name, file }));
}

const fromInput = (input) => [...input.files].map((file) => ({ path: file.webkitRelativePath || file.name, file }));

for (const name of ["files", "folder"]) {
  $(name).addEventListener("change", () => {
    const files = fromInput($(name));
    $(name).value = "";
    add(files);
  });
}
addEventListener("dragover", (event) => {
  event.preventDefault();
  $("drop").classList.add("over");
});
addEventListener("dragleave", () => $("drop").classList.remove("over"));
addEventListener("drop", async (event) => {
  event.preventDefault();
  $("drop").classList.remove("over");
  add(await entriesOf(event.dataTransfer));
});
$("clear").addEventListener("click", async () => {
  [models, opened] = [[], []];
  showFiles();
  $("form").hidden = $("result").hidden = true;
  await restart();
});

// The form

function choose(name, model) {
  command = name;
  $("commands").replaceChildren(...forms.map((form) => {
    const input = element("input", { type: "radio", name: "command", value: form.name, checked: form.name === name });
    input.addEventListener("change", () => choose(form.name));
    return element("label", {}, input, element("span", {}, form.name));
  }));
  const form = forms.find((one) => one.name === name);
  $("help").textContent = form.help;
  showChosen(model);
  const groups = new Map();
  for (const option of form.options) {
    if (!groups.has(option.group)) groups.set(option.group, []);
    groups.get(option.group).push(fieldOf(option));
  }
  $("options").replaceChildren(...[...groups].map(([group, fields]) =>
    element("details", {}, element("summary", {}, group), element("div", { className: "group" }, ...fields))));
  showWords();
  document.querySelector("#commands input:checked")?.focus({ preventScroll: true });
}

// The files that the command is to have; what is chosen stays chosen.
function showChosen(model) {
  const form = forms.find((one) => one.name === command);
  const before = filesOf();
  if (model) before[0] = model;
  if (command === "verify" && before[0] === before[1]) before[1] = undefined;
  $("chosen").replaceChildren(...Array.from({ length: form.files }, (_, index) => {
    const id = `file-${index}`;
    const select = element("select", { id }, ...models.map((path) => element("option", { value: path }, path)));
    select.value = models.includes(before[index]) ? before[index] : models[Math.min(index, models.length - 1)];
    select.addEventListener("change", showWords);
    const label = form.files === 1 ? "Model" : ["First model", "Second model"][index];
    return element("div", { className: "field" }, element("label", { htmlFor: id }, label), select);
  }));
}

function fieldOf(option) {
  const id = `option-${option.name}`;
  const label = element("label", { htmlFor: id }, option.label);
  const help = element("small", { id: `${id}-help` }, option.help);
  let input;
  if (option.category === "switch") {
    input = element("input", { type: "checkbox", checked: option.default === true });
  } else if (option.category === "choice" || option.category === "file") {
    const values = option.category === "file" ? opened.map(({ path }) => path) : option.choices;
    const none = option.default === null ? [element("option", { value: "" }, "")] : [];
    input = element("select", {}, ...none, ...values.map((value) => element("option", { value }, value)));
    input.value = option.default ?? "";
  } else {
    input = element("input", { type: "text", inputMode: option.category === "number" ? "decimal" : "text", autocomplete: "off",
      placeholder: option.default ?? "" });
  }
  Object.assign(input, { id, name: option.name });
  input.setAttribute("aria-describedby", `${id}-help`);
  input.addEventListener("input", showWords);
  return element("div", { className: "field" },
    ...(option.category === "switch" ? [input, " ", label] : [label, input]), help);
}

function valuesOf(form) {
  const values = {};
  for (const option of form.options) {
    const input = $(`option-${option.name}`);
    const value = option.category === "switch" ? input.checked : input.value.trim();
    const ordinary = option.category === "switch" ? option.default === true : option.default ?? "";
    if (value !== "" && value !== ordinary) values[option.name] = value;
  }
  return values;
}

const filesOf = () => [...$("chosen").querySelectorAll("select")].map((select) => select.value);

function showWords() {
  const form = forms.find((one) => one.name === command);
  const values = Object.entries(valuesOf(form)).map(([name, value]) => {
    const { label, category } = form.options.find((option) => option.name === name);
    if (category === "switch") return value ? label : label.replace("--", "--no-");
    return form.options.find((option) => option.name === name).choices.includes(value) && !label.includes(value)
      ? `${label} ${value}` : category === "choice" ? `--${value}` : `${label} ${quoted(value)}`;
  });
  $("words").textContent = ["onnx2ir", command, ...filesOf().map(quoted), ...values].join(" ");
}

const quoted = (word) => (/^[\w./:=,@%+-]+$/.test(word) ? word : `"${word.replaceAll('"', '\\"')}"`);

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  run(command, filesOf(), valuesOf(forms.find((one) => one.name === command)));
});

// Results

function addMessage(text) {
  $("text").textContent += text;
}

async function run(name, files, values) {
  if (isBusy) return;
  setBusy(`${name} …`, true);
  $("text").textContent = "";
  try {
    const result = await send("call", "run", name, files, values);
    models = await send("call", "models");
    showResult(result);
    idle(`${name}: ${result.exit_code ? "not done" : "done"} in ${secondsSince()}`);
    showChosen();
  } catch (error) {
    fail(/memory|allocation/i.test(error.message) ? `There is not enough memory for ${files.join(", ")}` : error.message);
  }
}

function showResult(result) {
  const [program, ...words] = ["onnx2ir", ...result.arguments];
  const messages = $("text").textContent;
  $("text").textContent = result.arguments.length
    ? `$ ${program} ${words.map(quoted).join(" ")}\n${messages}${result.output}` : result.output;
  const isDone = result.exit_code === 0;
  const error = /^(?:error|Error): (.*)$/m.exec($("text").textContent);
  $("verdict").className = `verdict ${isDone ? "good" : "bad"}`;
  $("verdict").firstElementChild.replaceChildren(
    element("strong", { className: "word" }, isDone ? "DONE" : "FAILED"), ` ${error ? error[1] : sentenceOf(result)}`);
  const files = result.files.filter(({ path }) => !path.endsWith(".html") || path !== result.files.at(-1)?.path || result.page);
  $("written").hidden = !files.length;
  $("outputs").replaceChildren(...files.map(({ path, size }) => {
    const button = element("button", { type: "button" }, "Download");
    button.setAttribute("aria-label", `Download ${path}`);
    button.addEventListener("click", async () => download(await send("content", path), path.split("/").at(-1)));
    return element("li", {}, `${path} (${sizeOf(size)})`, button);
  }));
  $("zip").onclick = async () => download(await send("zip", files.map(({ path }) => path)), "onnx2ir.zip");
  $("report").hidden = !result.page;
  if (result.page) $("report").srcdoc = result.page;
  else $("report").removeAttribute("srcdoc");
  $("result").hidden = false;
  $("result").dataset.code = String(result.exit_code);
}

function sentenceOf(result) {
  const lines = result.output.trim().split("\n");
  return result.arguments[0] === "inspect" ? result.arguments[1] : lines.findLast((line) => line.trim()) || $("text").textContent
    .split("\n").findLast((line) => line.startsWith("Wrote")) || "";
}

function download(blob, name) {
  const address = URL.createObjectURL(blob);
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

$("cancel").addEventListener("click", async () => {
  const files = opened;
  await restart();
  if (files.length && !isBusy) {
    const { models: known } = await send("open", files);
    models = known;
    idle("Cancelled");
    choose(command);
  }
});

async function restart() {
  worker.terminate();
  for (const { reject } of pending.values()) reject(new Error("cancelled"));
  await begin();
}

// Offline: after the first visit everything comes from the cache.

async function registerCache() {
  if (!navigator.serviceWorker) return;
  try {
    await navigator.serviceWorker.register("sw.js");
    await Promise.race([
      navigator.serviceWorker.controller || new Promise((resolve) => {
        navigator.serviceWorker.addEventListener("controllerchange", resolve, { once: true });
      }),
      new Promise((resolve) => setTimeout(resolve, 2000)),
    ]);
  } catch {
    // Without it the page works all the same, but not offline.
  }
}

await registerCache();
if (await begin()) navigator.serviceWorker?.controller?.postMessage("keep");
