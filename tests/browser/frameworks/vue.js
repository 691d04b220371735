import { createApp, h, shallowRef } from "vue";
import Answers from "example";

const shown = shallowRef([]);
const app = createApp(() => h(Answers, { answers: shown.value }));
app.mount("#root");
window.show = (answers) => { shown.value = answers; };
window.leave = () => app.unmount();
