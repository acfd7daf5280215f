// What survives a reload: the conversation and the settings, but no API key.

const KEY = "llgtrt";

export function load() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    return {}; // no storage, or not ours
  }
}

// Tokens take most of the room: where there is too little, the texts alone are kept.
export function save(state) {
  const plain = { ...state, turns: state.turns.map(({ tokens, ...turn }) => turn) };
  for (const kept of [state, plain]) {
    try {
      localStorage.setItem(KEY, JSON.stringify(kept));
      return;
    } catch {
      // The next one is smaller.
    }
  }
}
