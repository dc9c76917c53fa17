// node drive.js URL: opens a page in Chromium, does what standard input asks for, and prints what came of it as JSON.
//
//   {"chromium": path, "width": px, "height": px, "steps": [...]} -> {"errors": [...], "values": [...]}
//
// With "frame": true the page is in a frame, as in a notebook's cell, and what is evaluated is evaluated there.
//
// A step is {"evaluate": a function's text, "argument": data}, {"screenshot": path}, {"wait": ms}, or {"from": the text
// of a function that gives a place [x, y], "by": [dx, dy], "evaluate": ...}, a drag; what it evaluates, it does before it
// lets go. Errors are those on the page's console, and requests to other places than the page's own.

import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const url = process.argv[2];
const asked = JSON.parse(readFileSync(0, "utf8"));
const browser = await chromium.launch({
  executablePath: asked.chromium,
  args: ["--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-sandbox"],
});
const page = await browser.newPage({ viewport: { width: asked.width, height: asked.height } });
const [errors, values] = [[], []];
let place = page;
page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
page.on("pageerror", (error) => errors.push(String(error)));
page.on("request", (request) => {
  const own = request.url().startsWith(new URL(".", url).href) || /^(data|blob):/.test(request.url());
  if (!own) errors.push(`asks for ${request.url()}`);
});

async function take(step) {
  if (step.from) {
    const [x, y] = await place.evaluate(`(${step.from})()`);
    await page.mouse.move(x, y);
    await page.mouse.down();
    await page.mouse.move(x + step.by[0], y + step.by[1], { steps: 8 });
  }
  if (step.evaluate) values.push(await place.evaluate(`(${step.evaluate})(${JSON.stringify(step.argument ?? null)})`));
  if (step.from) await page.mouse.up();
  if (step.screenshot) await page.screenshot({ path: step.screenshot });
  if (step.wait) await page.waitForTimeout(step.wait);
}

try {
  await page.goto(url);
  if (asked.frame) place = page.frames().at(-1);
  await place.waitForFunction("window.curious?.page.firstPicture", null, { timeout: 120_000 });
  for (const step of asked.steps) await take(step);
} catch (error) {
  errors.push(String(error));
}
await browser.close();
console.log(JSON.stringify({ errors, values }));
