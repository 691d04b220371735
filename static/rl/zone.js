/* Tells the server in which zone times are read (rl/web/middleware.py). */
const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
const path = new URL("../../", import.meta.url).pathname;
if (timeZone) document.cookie = `time_zone=${timeZone}; path=${path}; max-age=31536000; SameSite=Lax`;
