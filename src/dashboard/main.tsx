/** The dashboard: reads who is signed in, and draws. */
import { render } from 'preact';
import './css/tokens.css';
import './css/base.css';
import { App } from './frame/app.tsx';
import { startRouter } from './router.ts';

startRouter();
const app = document.getElementById('app');
if (app) render(<App />, app);
