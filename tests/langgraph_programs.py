"""A program in LangGraph, for a model at any OpenAI-compatible server."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send


def chat_model(base_url: str, model: str, **options: Any) -> ChatOpenAI:
    """LangChain's client."""
    return ChatOpenAI(base_url=base_url, api_key="k", model=model, max_retries=0, **options)


class State(TypedDict):
    """Of the whole graph."""

    facts: Annotated[list[str], operator.add]


def map_reduce(llm: ChatOpenAI) -> Any:
    """Plan; for each of three topics draft, then polish; then reduce. Each node in its form for sync and for async."""

    async def aplan(_: State) -> Any:
        await llm.ainvoke("plan")
        return {}

    async def amap(state: Any) -> Any:
        draft = await llm.ainvoke(f"draft {state['topic']}")
        return {"facts": [(await llm.ainvoke(f"polish {draft.text}")).text]}

    async def areduce(state: State) -> Any:
        return {"facts": [(await llm.ainvoke(" ".join(state["facts"]))).text]}

    def plan(_: State) -> Any:
        llm.invoke("plan")
        return {}

    def map_one(state: Any) -> Any:
        draft = llm.invoke(f"draft {state['topic']}")
        return {"facts": [llm.invoke(f"polish {draft.text}").text]}

    def reduce_all(state: State) -> Any:
        return {"facts": [llm.invoke(" ".join(state["facts"])).text]}

    graph = StateGraph(State)
    graph.add_node("plan", RunnableLambda(plan, aplan))
    graph.add_node("map", RunnableLambda(map_one, amap))
    graph.add_node("reduce", RunnableLambda(reduce_all, areduce))
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", lambda _: [Send("map", {"topic": t}) for t in "abc"], ["map"])
    graph.add_edge("map", "reduce")
    graph.add_edge("reduce", END)
    return graph.compile()
