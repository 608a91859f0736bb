"""An application that knows nothing of this project: Flask and the ``openai`` SDK."""

import os

import openai
from flask import Flask, request

app = Flask(__name__)
client = openai.OpenAI(base_url=os.environ["MODEL_URL"], api_key="none")


@app.get("/ask")
def ask() -> dict[str, str | None]:
    question = request.args["question"]
    messages = [{"role": "system", "content": "Answer briefly."}, {"role": "user", "content": question}]
    answer = client.chat.completions.create(model="stand-in-1", messages=messages)
    return {"answer": answer.choices[0].message.content}


@app.get("/health")
def health() -> dict[str, str]:
    return {"status": "ok"}
