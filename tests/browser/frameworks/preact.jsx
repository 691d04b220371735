import { render } from "preact";
import Answers from "example";

const node = document.getElementById("root");
window.show = (answers) => render(<Answers answers={answers} />, node);
window.leave = () => render(null, node);
