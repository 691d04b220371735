"""The till as a graph of LangGraph. Nothing in it knows of a training."""

import json
import sys

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


@tool
def add(a: float, b: float) -> str:
    """Adds two numbers."""
    return f"{a + b:g}"


MODEL = ChatOpenAI(model="till").bind_tools([add])  # reads OPENAI_API_BASE and OPENAI_API_KEY
SYSTEM = ("system", "Add up with the tool. Answer with the sum.")


def ask(state: MessagesState) -> dict[str, list[object]]:
    return {"messages": [MODEL.invoke([SYSTEM, *state["messages"]])]}


graph = StateGraph(MessagesState)
graph.add_node("model", ask)
graph.add_node("tools", ToolNode([add]))
graph.add_edge(START, "model")
graph.add_conditional_edges("model", tools_condition)
graph.add_edge("tools", "model")

if __name__ == "__main__":
    question = json.load(sys.stdin)["prompt"]
    print(graph.compile().invoke({"messages": [("user", question)]})["messages"][-1].content)
