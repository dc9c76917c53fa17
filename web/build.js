// node build.js: bundles the page into dist/, as classic scripts, so that it opens from a file: page.js is the program,
// data.js the world and the policies. What does not depend on these goes into the Python package, too, which puts other
// policies in (curious_jax/show/browser.py).

import { copyFileSync, cpSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

// Imports of .wasm give their bytes, compressed by gzip (src/unpack.js).
const packed = {
  name: "packed",
  setup({ onLoad }) {
    onLoad({ filter: /\.wasm$/ }, ({ path }) => ({
      contents: gzipSync(readFileSync(path), { level: 9 }),
      loader: "binary",
    }));
  },
};

const PACKAGE = "../curious_jax/show/browser_page";

for (const folder of ["dist", PACKAGE]) rmSync(folder, { recursive: true, force: true });
mkdirSync("dist/licences", { recursive: true });
await build({
  entryPoints: ["src/main.js"],
  outfile: "dist/page.js",
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  // MuJoCo's loader asks for these under Node only, or to find a file that the page hands to it.
  external: ["module"],
  define: { "import.meta.url": "location.href" },
  plugins: [packed],
});
for (const name of ["index.html", "style.css"]) copyFileSync(name, `dist/${name}`);
cpSync("data/licences", "dist/licences", { recursive: true });
copyFileSync("LICENSES.md", "dist/licences/README.md");
copyFileSync("node_modules/three/LICENSE", "dist/licences/three-LICENSE");
cpSync("dist", PACKAGE, { recursive: true });
copyFileSync("data/data.js", "dist/data.js");
