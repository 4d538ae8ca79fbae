/** How the dashboard is built: see deploy/dashboard.mjs. */
import { defineConfig } from 'vite';

export default defineConfig({
  base: '/dashboard/',
  publicDir: false,
  clearScreen: false,
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: '../../dist/src/dashboard',
    emptyOutDir: true,
    target: 'es2022',
    // The content policy knows no data: for scripts, styles and fonts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // What test/dashboard/size.test.ts adds up.
    manifest: true,
  },
});
