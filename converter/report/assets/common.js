"use strict";
// The data of the page, and what every part of the script uses.
const data = JSON.parse(document.getElementById("data").textContent);
const layers = data.layers, groups = data.groups, constants = data.constants;
const NAMES = ["not compared", "equal", "drifted", "wrong", "changed"];
const COLOURS = ["--none", "--good", "--drift", "--bad", "--mark"];
// How bad a verdict is: a block has the worst verdict of its layers.
const SEVERITY = [0, 1, 2, 4, 3];
const worse = (one, other) => (SEVERITY[other] > SEVERITY[one] ? other : one);

const byId = (id) => document.getElementById(id);
const make = (tag, text, attributes = {}) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};
// The pages of a conversion and of one model have no verdicts of layers.
const isCompared = layers.some((layer) => layer.v > 0);
const verdictOf = (number) => (isCompared ? make("span", NAMES[number], { class: `verdict v${number}` }) : "");
const SVG = "http://www.w3.org/2000/svg";
const shape = (tag, attributes, text) => {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
};
const number = (value) => (value === null || value === undefined ? "-" : String(Number(Number(value).toPrecision(3))));
const counted = (count, what) => `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;
// A text whose long names may break behind their separators.
const breakable = (text) => {
  const found = document.createDocumentFragment();
  String(text).split(/(?<=[/_:])(?=[^\s/._:,-])|(?<=\w[.,-])(?=[a-z])/i).forEach((part, at) => {
    if (at) found.append(document.createElement("wbr"));
    found.append(part);
  });
  return found;
};
