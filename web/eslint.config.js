import js from "@eslint/js";
import globals from "globals";

export default [
  { ignores: ["data", "dist"] },
  js.configs.recommended,
  { files: ["src/**"], languageOptions: { globals: globals.browser } },
  { files: ["*.js"], languageOptions: { globals: globals.node } },
];
