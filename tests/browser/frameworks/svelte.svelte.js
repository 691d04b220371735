import { flushSync, mount, unmount } from "svelte";
import Answers from "example";

const props = $state({ answers: [] });
const app = mount(Answers, { target: document.getElementById("root"), props });
window.show = (answers) => flushSync(() => { props.answers = answers; });
window.leave = () => unmount(app);
