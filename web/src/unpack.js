// What build.js packed: bytes compressed by gzip.

const stream = (bytes) => new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));

export const unpackBytes = (bytes) => new Response(stream(bytes)).arrayBuffer();
export const unpackJson = (bytes) => new Response(stream(bytes)).json();
