// On a server, without a page: prints what React makes of the answers that are given as JSON.
import { renderToString } from "react-dom/server";
import Answers from "example";

console.log(renderToString(<Answers answers={JSON.parse(process.argv[2])} />));
