// Keeps what the page loads, so that it works offline. The name of the cache has the digest of all packages.

const NAME = "onnx2ir-{digest}";
const PAGE = ["./", "index.html", "page.js", "worker.js", "page.css", "report.css", "vendor/manifest.json"];

self.addEventListener("install", (event) => {
  self.skipWaiting();
  event.waitUntil(caches.open(NAME).then((cache) => cache.addAll(PAGE)));
});

self.addEventListener("activate", (event) => {
  event.waitUntil((async () => {
    for (const name of await caches.keys()) {
      if (name.startsWith("onnx2ir-") && name !== NAME) await caches.delete(name);
    }
    await self.clients.claim();
  })());
});

const keeps = (response) => response.ok && (response.type === "basic" || response.type === "cors");

// The response goes on to the page while its copy is stored.
async function answer(request, event) {
  const cache = await caches.open(NAME);
  const kept = await cache.match(request, { ignoreVary: true });
  if (kept) return kept;
  const response = await fetch(request);
  if (keeps(response)) event.waitUntil(cache.put(request, response.clone()));
  return response;
}

self.addEventListener("fetch", (event) => {
  if (event.request.method === "GET" && event.request.url.startsWith("http")) event.respondWith(answer(event.request, event));
});

// The page asks for the rest, such as onnxruntime, when it is idle.
self.addEventListener("message", (event) => {
  if (event.data !== "keep") return;
  event.waitUntil((async () => {
    const { files } = await (await answer(new Request("vendor/manifest.json"), event)).json();
    for (const file of files) await answer(new Request(file), event).catch(() => undefined);
  })());
});
