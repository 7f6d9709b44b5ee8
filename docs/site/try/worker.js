// Python with the wheel of the project, in a worker: the page sends calls, and gets results and messages.

const FOLDER = "/models";
let python, browser, show, ort;
const sessions = [];

const send = (message, transfer = []) => self.postMessage(message, transfer);

// The lock of the distribution, with the addresses of packages in full: it stands elsewhere than some of them.
async function lockOf(address) {
  const lock = await (await fetch(address)).json();
  for (const entry of Object.values(lock.packages)) entry.file_name = new URL(entry.file_name, address).href;
  return URL.createObjectURL(new Blob([JSON.stringify(lock)], { type: "application/json" }));
}

async function start(base) {
  const manifest = await (await fetch(new URL("vendor/manifest.json", base))).json();
  const runtime = new URL(manifest.runtime, base).href;
  send({ task: "Loading Python" });
  const { loadPyodide } = await import(`${runtime}pyodide.mjs`);
  const lockFileURL = await lockOf(new URL(manifest.lock, base).href);
  const failures = [];
  // Packages are fetched while Python starts; loadPackage then says which are missing.
  const packages = manifest.packages;
  python = await loadPyodide({ indexURL: runtime, packageBaseUrl: runtime, lockFileURL, packages });
  send({ task: "Loading packages" });
  await python.loadPackage(packages, {
    messageCallback() {},
    errorCallback: (text) => failures.push(text),
  });
  if (failures.length) throw new Error(failures.join("\n"));
  send({ task: "Starting onnx2ir" });
  browser = python.pyimport("converter.command_line.browser");
  browser.open_folder(FOLDER);
  show = (kind, text) => send({ [kind]: text });
  if (await canWait()) browser.use_onnxruntime(manifest.onnxruntime.version, create, runSession, python.pyimport("pyodide.ffi").run_sync);
  ort = { address: new URL(manifest.onnxruntime.folder, base).href };
  return { forms: await call("forms"), version: manifest.version };
}

// Whether Python may wait for a promise: it needs WebAssembly's JavaScript Promise Integration.
async function canWait() {
  try {
    return await python.runPython("from pyodide.ffi import can_run_sync; can_run_sync").callPromising();
  } catch {
    return false;
  }
}

async function call(name, ...values) {
  const words = [name, JSON.stringify(values), show];
  const result = (await canWait()) ? await browser.call.callPromising(...words) : browser.call(...words);
  return JSON.parse(result);
}

async function open(files) {
  const sizes = Object.fromEntries(files.map(({ path, file }) => [path, file.size]));
  const refusal = await call("refusal_of", sizes);
  if (refusal) return { refusal };
  for (const { path, file } of files) {
    send({ task: `Reading ${path}` });
    const place = `${FOLDER}/${path}`;
    python.FS.mkdirTree(place.slice(0, place.lastIndexOf("/")));
    // Without a copy: the file system keeps the array itself.
    python.FS.writeFile(place, new Uint8Array(await file.arrayBuffer()), { canOwn: true });
  }
  return { models: await call("models") };
}

function contentOf(path) {
  const { node } = python.FS.lookupPath(`${FOLDER}/${path}`);
  return new Blob(node.usedBytes ? [node.contents.subarray(0, node.usedBytes)] : []);
}

async function zip(paths) {
  await call("write_zip", paths, "results.zip");
  const blob = contentOf("results.zip");
  python.FS.unlink(`${FOLDER}/results.zip`);
  return blob;
}

// onnxruntime-web, for converter.command_line.browser.use_onnxruntime.

const bytesOf = (proxy) => {
  const buffer = proxy.getBuffer("u8");
  try {
    return buffer.data.slice();
  } finally {
    buffer.release();
  }
};

// Errors are results: Python would log a rejected promise, beside the exception of the caller.
const answering = (work) => async (...words) => {
  try {
    return await work(...words);
  } catch (error) {
    return [JSON.stringify({ error: error?.message || String(error) }), []];
  }
};

const create = answering(async (model, described, files) => {
  if (!ort.module) {
    send({ task: "Loading onnxruntime" });
    ort.module = await import(`${ort.address}ort.wasm.min.mjs`);
    Object.assign(ort.module.env.wasm, { numThreads: 1, proxy: false, wasmPaths: ort.address });
    ort.module.env.logLevel = "fatal";
  }
  const { entries, ...options } = JSON.parse(described);
  const session = {};
  for (const [key, value] of Object.entries(entries)) session[key.replace(/^session\./, "")] = value;
  const externalData = files.toJs().map(([path, data]) => ({ path, data }));
  const made = await ort.module.InferenceSession.create(bytesOf(model), {
    ...options, extra: { session }, ...(externalData.length ? { externalData } : {}), executionProviders: ["wasm"],
  });
  const ports = (list) => list.map(({ name, isTensor, type }) => ({ name, type: isTensor ? type : "unknown" }));
  const number = sessions.push(made) - 1;
  return [JSON.stringify({ session: number, inputs: ports(made.inputMetadata), outputs: ports(made.outputMetadata) }), []];
});

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, float16: Uint16Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array,
  uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array, bool: Uint8Array,
};

const runSession = answering(async (number, inputs, buffers) => {
  const { Tensor } = ort.module;
  const values = buffers.toJs();
  const feeds = {};
  for (const { name, type, dims, strings } of JSON.parse(inputs)) {
    if (!strings && !(type in ARRAYS)) throw new Error(`onnxruntime-web takes no ${type}`);
    const data = strings ?? new ARRAYS[type](values.shift().slice().buffer);
    feeds[name] = new Tensor(type, data, dims);
  }
  const session = sessions[number];
  const results = await session.run(feeds);
  const outputs = session.outputNames.map((name) => results[name]);
  const described = outputs.map(({ type, dims, data }) => ({ type, dims, ...(type === "string" ? { strings: data } : {}) }));
  const bytes = outputs.filter(({ type }) => type !== "string")
    .map(({ data }) => new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  return [JSON.stringify({ outputs: described }), bytes];
});

const functions = { start, call, open, zip, content: async (path) => contentOf(path) };

self.onmessage = async ({ data: { id, name, values } }) => {
  try {
    send({ id, result: await functions[name](...values) });
  } catch (error) {
    send({ id, error: error?.message || `${error?.name ?? error} ${error?.errno ?? ""}`.trim() });
  }
};
send({ loaded: true });
