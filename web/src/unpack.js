// What build.js and curious_jax/show/browser.py packed: bytes compressed by gzip, those of data.js as base64 texts.

const stream = (bytes) => new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));

export const unpackBytes = (bytes) => new Response(stream(bytes)).arrayBuffer();
export const unpackJson = (text) =>
  new Response(stream(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)))).json();
