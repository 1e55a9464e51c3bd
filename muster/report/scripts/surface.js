// @ts-check

// What charts are drawn on: a canvas for the screen and for PNG, text for SVG. Both take the same calls.

/** @typedef {{fill?: string, align?: "left" | "center" | "right", size?: number, bold?: boolean, width?: number}} TextStyle */
/** @typedef {{stroke: string, width?: number, dash?: number[]}} LineStyle */
/**
 * @typedef {{rect: (x: number, y: number, width: number, height: number, fill: string, opacity?: number) => void,
 *   line: (points: number[][], style: LineStyle) => void, area: (points: number[][], fill: string) => void,
 *   text: (words: string, x: number, y: number, style?: TextStyle) => void,
 *   clip: (x: number, y: number, width: number, height: number) => void, unclip: () => void}} Surface
 */

const FONT = "system-ui, -apple-system, 'Segoe UI', Arial, sans-serif";
const LABEL_SIZE = 12;
/** @param {number} size @param {boolean} bold */
const fontOf = (size, bold) => `${bold ? "600 " : ""}${size}px ${FONT}`;

/** The roles of the palette as colours. @param {boolean} [light] whether of the light page @returns {(role: string) => string} */
function palette(light) {
  const style = getComputedStyle(document.documentElement);
  /** @type {Map<string, string>} */
  const known = new Map();
  return (role) => {
    const found = known.get(role) ?? style.getPropertyValue(light ? `--light-${role}` : `--${role}`).trim();
    known.set(role, found);
    return found;
  };
}

/** @param {CanvasRenderingContext2D} paint @returns {Surface} */
function onCanvas(paint) {
  return {
    rect(x, y, width, height, fill, opacity = 1) {
      paint.globalAlpha = opacity;
      paint.fillStyle = fill;
      paint.fillRect(x, y, width, height);
      paint.globalAlpha = 1;
    },
    line(points, { stroke, width = 1, dash = [] }) {
      paint.beginPath();
      points.forEach(([x, y], at) => (at ? paint.lineTo(x, y) : paint.moveTo(x, y)));
      paint.strokeStyle = stroke;
      paint.lineWidth = width;
      paint.setLineDash(dash);
      paint.stroke();
    },
    area(points, fill) {
      paint.beginPath();
      points.forEach(([x, y], at) => (at ? paint.lineTo(x, y) : paint.moveTo(x, y)));
      paint.fillStyle = fill;
      paint.fill();
    },
    text(words, x, y, { fill = "", align = "left", size = LABEL_SIZE, bold = false, width } = {}) {
      paint.font = fontOf(size, bold);
      paint.textAlign = align;
      paint.fillStyle = fill;
      paint.fillText(width === undefined ? words : fitting(words, width, size), x, y);
    },
    clip(x, y, width, height) {
      paint.save();
      paint.beginPath();
      paint.rect(x, y, width, height);
      paint.clip();
    },
    unclip: () => paint.restore(),
  };
}

const ruler = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));

/** The pixels that the words take in the fonts of this browser. @param {string} words @param {number} size @param {boolean} [bold] */
function widthOf(words, size, bold = false) {
  ruler.font = fontOf(size, bold);
  return ruler.measureText(words).width;
}

/** How many characters of the words, at least one, take no more than so many pixels. @param {string} words @param {number} room @param {number} size @param {boolean} [bold] */
function charactersIn(words, room, size, bold) {
  let [most, more] = [1, words.length + 1];
  while (more - most > 1) {
    const middle = Math.floor((most + more) / 2);
    if (widthOf(words.slice(0, middle), size, bold) <= room) most = middle;
    else more = middle;
  }
  return most;
}

/** The words cut to so many pixels. @param {string} words @param {number} room @param {number} size */
const fitting = (words, room, size) => (widthOf(words, size) <= room ? words : `${words.slice(0, charactersIn(words, room - widthOf("…", size), size))}…`);

/** The words in lines of at most so many pixels, broken after a joint of the name where there is one. @param {string} words @param {number} room @param {boolean} [bold] */
function wrapped(words, room, bold) {
  const lines = [];
  let rest = words;
  for (let most; (most = charactersIn(rest, room, LABEL_SIZE, bold)) < rest.length; ) {
    const joint = Math.max(...[..." +-_/"].map((letter) => rest.lastIndexOf(letter, most - 1)));
    const end = joint >= most / 2 ? joint + 1 : most;
    lines.push(rest.slice(0, end));
    rest = rest.slice(end);
  }
  return [...lines, rest];
}

/** @param {string} words */
const escaped = (words) => words.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
/** @param {number} value */
const tenth = (value) => Math.round(value * 10) / 10;

/** A surface that becomes an SVG file. @param {number} width @param {number} height @param {string} namespace */
function asSvg(width, height, namespace) {
  /** @type {string[]} */
  const parts = [];
  let clips = 0;
  const path = (/** @type {number[][]} */ points) => `M${points.map(([x, y]) => `${tenth(x)},${tenth(y)}`).join("L")}`;
  /** @type {Surface} */
  const surface = {
    rect: (x, y, w, h, fill, opacity = 1) =>
      parts.push(`<rect x="${tenth(x)}" y="${tenth(y)}" width="${tenth(w)}" height="${tenth(h)}" fill="${fill}"${opacity < 1 ? ` opacity="${opacity}"` : ""}/>`),
    line: (points, { stroke, width: thick = 1, dash = [] }) =>
      points.length && parts.push(`<path d="${path(points)}" fill="none" stroke="${stroke}" stroke-width="${thick}"${dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : ""}/>`),
    area: (points, fill) => points.length && parts.push(`<path d="${path(points)}Z" fill="${fill}"/>`),
    text(words, x, y, { fill = "", align = "left", size = LABEL_SIZE, bold = false, width: room } = {}) {
      const anchor = { left: "start", center: "middle", right: "end" }[align];
      const shown = room === undefined ? words : fitting(words, room, size);
      parts.push(`<text x="${tenth(x)}" y="${tenth(y)}" fill="${fill}" font-size="${size}" text-anchor="${anchor}"${bold ? ' font-weight="600"' : ""}>${escaped(shown)}</text>`);
    },
    clip(x, y, w, h) {
      clips++;
      parts.push(`<clipPath id="clip-${clips}"><rect x="${tenth(x)}" y="${tenth(y)}" width="${tenth(w)}" height="${tenth(h)}"/></clipPath><g clip-path="url(#clip-${clips})">`);
    },
    unclip: () => parts.push("</g>"),
  };
  const text = () =>
    `<svg xmlns="${namespace}" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="${escaped(FONT)}">${parts.join("")}</svg>`;
  return { surface, text };
}
