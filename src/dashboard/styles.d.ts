/** Style sheets are imported for their effect: Vite puts them beside the scripts that need them. */
declare module '*.css';
