// The client, and what it asks for: tasks that the demo model has learned, with the one right answer.

import OpenAI from "openai";
import { z } from "zod";

const STORY = "A new order came in from Tom Weber. The order is for 12 pieces.";
export const EXTRACT = `${STORY}\nExtract customer and quantity as JSON.`;
export const UPDATE = `${STORY}\nPlease update the order.`;
export const WEATHER = "What is the weather in Rome?";
// The answer to that where the function says 17.
export const TOLD = "The weather for Rome is 17.";

export const Order = z.object({ customer: z.string(), quantity: z.number().int() });
export const ORDER = { customer: "Tom Weber", quantity: 12 };
export const City = z.object({ city: z.string() });

export const ASKED = { model: "demo", temperature: 0 };
export const ADDRESS = process.env.LLGTRT_URL;
export const client = new OpenAI({ baseURL: `${ADDRESS}/v1`, apiKey: "none", maxRetries: 0 });

export const user = (content) => [{ role: "user", content }];

// What the function answers. As text: the demo model has learned results with a space behind the colon.
export const weather = ({ city }) => {
  if (city !== "Rome") throw new Error(`asked for ${city}`);
  return '{"weather": 17}';
};

// Everything that a stream or a list of pages has.
export const all = async (iterable) => {
  const items = [];
  for await (const item of iterable) items.push(item);
  return items;
};
