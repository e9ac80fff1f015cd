// orval: one file of functions over fetch.
module.exports = {
  dragoman: { input: process.env.DESCRIPTION, output: { target: process.env.OUTPUT, client: "fetch", mode: "single" } },
};
