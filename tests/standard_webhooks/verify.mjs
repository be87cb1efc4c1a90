// Reads deliveries from the given file, and prints for each whether the published library accepts it.
import { readFileSync } from "node:fs";
import { Webhook } from "standardwebhooks";

const accepts = ({ secret, headers, body }) => {
  try {
    new Webhook(secret).verify(body, headers);
    return true;
  } catch {
    return false;
  }
};

const deliveries = JSON.parse(readFileSync(process.argv[2], "utf8"));
console.log(JSON.stringify(deliveries.map(accepts)));
