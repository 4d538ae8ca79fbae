/** The dashboard: reads who is signed in, and draws. */
import { render } from 'preact';
import './css/tokens.css';
import './css/base.css';
import { App } from './frame/app.tsx';
import { startRouter } from './router.ts';
import { prepareFormats } from './ui/value.tsx';

// A task of its own: evaluating the modules is one already, and none may be long.
setTimeout(() => {
  startRouter();
  const app = document.getElementById('app');
  if (app) render(<App />, app);
  // While the first answers are on their way.
  prepareFormats();
});
