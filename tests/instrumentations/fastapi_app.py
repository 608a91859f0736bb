"""An application that knows nothing of this project: FastAPI and the ``openai`` SDK."""

import os

import openai
from fastapi import FastAPI

app = FastAPI()
client = openai.OpenAI(base_url=os.environ["MODEL_URL"], api_key="none")


@app.get("/ask")
def ask(question: str) -> dict[str, str | None]:
    messages = [{"role": "system", "content": "Answer briefly."}, {"role": "user", "content": question}]
    answer = client.chat.completions.create(model="stand-in-1", messages=messages)
    return {"answer": answer.choices[0].message.content}


@app.get("/health")
async def health() -> dict[str, str]:
    return {"status": "ok"}
