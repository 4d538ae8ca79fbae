/** The picture of an asset: its poster, or the image it is made of until there is one. */
import { useState } from 'preact/hooks';
import type { Asset } from '../../../schemas/asset.ts';
import { Icon } from '../ui/icon.tsx';
import './gallery.css';

export function Poster({ asset }: { asset: Asset }) {
  const { poster_url: poster, src, status } = asset;
  const shown = poster ?? src;
  const [broken, setBroken] = useState<string>();
  return (
    <span class="poster" data-status={status}>
      {broken === shown ? (
        <Icon name={status === 'failed' ? 'warning' : 'image'} />
      ) : (
        <img
          src={shown}
          alt=""
          loading="lazy"
          decoding="async"
          width={320}
          height={200}
          onError={() => setBroken(shown)}
        />
      )}
    </span>
  );
}
