// React 18 and 19: strict, so that effects run twice, and in development, where React says what it dislikes.
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import Answers from "example";

const root = createRoot(document.getElementById("root"));
window.show = (answers) => root.render(<StrictMode><Answers answers={answers} /></StrictMode>);
window.leave = () => root.unmount();
