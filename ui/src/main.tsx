import { render } from "preact";
import "./app.css";
import { App } from "./shell";

render(<App />, document.getElementById("app")!);
