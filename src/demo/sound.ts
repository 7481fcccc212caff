/** Makes the demo's sounds: a tone for each word, as a WAV file or as raw samples. */

import { type ChatRequest, GatewayError } from "../index.ts";

/** The samples for each second. As in the official `pcm16`, a sample has 16 bits in little-endian order, on one channel. */
const RATE = 24_000;
const BYTES_A_SAMPLE = 2;
const TONE_SAMPLES = RATE / 10;
const MAX_TONES = 50;

/** The audio formats of the demo, by their names in chat-completions. */
export type SoundFormat = "wav" | "pcm16";

const FORMATS: Readonly<Record<SoundFormat, { mediaType: string; file: (samples: Buffer) => Buffer }>> = {
  wav: { mediaType: "audio/wav", file: wav },
  pcm16: { mediaType: `audio/pcm;rate=${RATE}`, file: (samples) => samples },
};

/** Returns the audio format of a request. Default: WAV. Throws `failed_precondition` for a format that the demo cannot make. */
export function soundFormatOf({ modalities, native }: ChatRequest): SoundFormat {
  const audio = native?.format === "chat-completions" ? native.body["audio"] : undefined;
  if (!modalities?.includes("audio") || typeof audio !== "object" || audio === null) return "wav";
  const format = "format" in audio ? (audio.format ?? "wav") : "wav";
  if (format === "wav" || format === "pcm16") return format;
  const path = ["audio", "format"];
  throw new GatewayError(
    "failed_precondition",
    `${path.join(".")}: The demo makes ${Object.keys(FORMATS).join(" and ")} alone.`,
    { path },
  );
}

/** Plays a text as tones of a tenth of a second. A longer word gets a higher tone. */
export function playTones(text: string, format: SoundFormat): { mediaType: string; bytes: Buffer } {
  const words = text.split(/\s+/, MAX_TONES).filter((word) => word !== "");
  const { mediaType, file } = FORMATS[format];
  return { mediaType, bytes: file(Buffer.concat(words.map(tone))) };
}

function tone({ length }: string): Buffer {
  const hertz = 220 * 2 ** (Math.min(length, 24) / 12);
  const samples = Buffer.alloc(TONE_SAMPLES * BYTES_A_SAMPLE);
  for (let at = 0; at < TONE_SAMPLES; at++) {
    const sample = Math.round(25_000 * Math.sin((2 * Math.PI * hertz * at) / RATE));
    samples.writeInt16LE(sample, at * BYTES_A_SAMPLE);
  }
  return samples;
}

function wav(samples: Buffer): Buffer {
  const header = Buffer.alloc(44);
  header.write("RIFF", 0, "latin1");
  header.writeUInt32LE(36 + samples.length, 4);
  header.write("WAVEfmt ", 8, "latin1");
  header.writeUInt32LE(16, 16);
  // The format is uncompressed PCM with one channel.
  header.writeUInt16LE(1, 20);
  header.writeUInt16LE(1, 22);
  header.writeUInt32LE(RATE, 24);
  header.writeUInt32LE(RATE * BYTES_A_SAMPLE, 28);
  header.writeUInt16LE(BYTES_A_SAMPLE, 32);
  header.writeUInt16LE(8 * BYTES_A_SAMPLE, 34);
  header.write("data", 36, "latin1");
  header.writeUInt32LE(samples.length, 40);
  return Buffer.concat([header, samples]);
}
