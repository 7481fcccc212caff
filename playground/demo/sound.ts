/** Sounds that the demo makes: a tone for each word, as a WAV. */

const RATE = 8_000;
const TONE_SAMPLES = RATE / 10;
const MAX_TONES = 50;

/** Plays a text as tones of a tenth of a second, the longer the word the higher. */
export function playTones(text: string): Buffer {
  const words = text.split(/\s+/, MAX_TONES).filter((word) => word !== "");
  return wav(Buffer.concat(words.map(tone)));
}

function tone({ length }: string): Buffer {
  const hertz = 220 * 2 ** (Math.min(length, 24) / 12);
  const samples = Array.from({ length: TONE_SAMPLES }, (_, at) => Math.sin((2 * Math.PI * hertz * at) / RATE));
  return Buffer.from(samples.map((sample) => Math.round(128 + 100 * sample)));
}

/** Samples of eight bits on one channel, in a RIFF file. */
function wav(samples: Buffer): Buffer {
  const header = Buffer.alloc(44);
  header.write("RIFF", 0, "latin1");
  header.writeUInt32LE(36 + samples.length, 4);
  header.write("WAVEfmt ", 8, "latin1");
  header.writeUInt32LE(16, 16);
  // Uncompressed, one channel.
  header.writeUInt16LE(1, 20);
  header.writeUInt16LE(1, 22);
  header.writeUInt32LE(RATE, 24);
  header.writeUInt32LE(RATE, 28);
  header.writeUInt16LE(1, 32);
  header.writeUInt16LE(8, 34);
  header.write("data", 36, "latin1");
  header.writeUInt32LE(samples.length, 40);
  return Buffer.concat([header, samples]);
}
