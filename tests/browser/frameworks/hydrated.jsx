// The page as the server rendered it, taken over by React.
import { hydrateRoot } from "react-dom/client";
import Answers from "example";

const node = document.getElementById("root");
window.show = (answers) => { window.root = hydrateRoot(node, <Answers answers={answers} />); };
