// The engine knows no time zones and no languages: it would show UTC whatever zone a script names.
const KNOWN = ["utc", "etc/utc", "gmt"];

for (const name of ["toLocaleString", "toLocaleDateString", "toLocaleTimeString"]) {
  const inUtc = Date.prototype[name];
  const { [name]: checked } = {
    [name](locales, options) {
      const zone = options?.timeZone;
      if (zone !== undefined && !KNOWN.includes(String(zone).toLowerCase())) {
        throw new RangeError(`${name}: UTC is the only time zone of scripts, not ${JSON.stringify(String(zone))}; add its offset to the time yourself`);
      }
      return inUtc.call(this, locales, options);
    },
  };
  Object.defineProperty(Date.prototype, name, { value: checked, configurable: true, writable: true });
}

// The engine parses by recursion, and a text that is nested on purpose would overflow its stack: that costs the instance.
const native = globalThis.native;
const UNCHECKED_LENGTH_MAX = 2000;
const unchecked = JSON.parse;

const { parse } = {
  parse(text, reviver) {
    text = String(text);
    if (text.length <= UNCHECKED_LENGTH_MAX) return unchecked(text, reviver);
    const value = native.parse(text);
    return reviver === undefined ? value : unchecked(text, reviver);
  },
};
Object.defineProperty(JSON, "parse", { value: parse, configurable: true, writable: true });
