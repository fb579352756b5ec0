"""A prompt and knobs: what the model would say next, before and after they cut, and the text that a press writes."""

import numpy as np

from llmc.course.figures.showing import as_output
from llmc.course.lessons.sample_gpt2.views import draw_next
from llmc.data.encoding import encode
from llmc.errors import UserError
from llmc.sampling import probabilities, sample_text

MOST = 400  # tokens of a text


class PromptPanel:
    """`PromptPanel(model, encoding, "Return the", window=64).show()`: moving a knob draws the bars again.

    window: how many tokens the model looks back on. Picture and text of the first settings are ordinary outputs, for
    readers without widgets; the picture goes when a knob draws the panel's own.
    """

    def __init__(self, model, encoding, prompt, window, tokens=100):
        import ipywidgets as widgets

        self.model, self.encoding, self.window = model, encoding, window
        wide = dict(style=dict(description_width="7em"), continuous_update=False)
        number = widgets.FloatSlider
        self.prompt = widgets.Text(prompt, description="prompt", **wide)
        self.temperature = number(0.7, min=0.05, max=2, step=0.05, description="temperature", **wide)
        self.top_k = widgets.IntSlider(model.config.V, min=1, max=model.config.V, description="top-k", **wide)
        self.top_p = number(0.9, min=0.05, max=1, step=0.05, description="top-p", **wide)
        self.seed = widgets.BoundedIntText(7, min=0, max=10**6, description="seed", **wide)
        self.tokens = widgets.IntSlider(tokens, min=1, max=MOST, description="tokens", **wide)
        self.button = widgets.Button(description="write", button_style="primary", icon="pencil")
        self.picture, self.page, self.first = widgets.HTML(), widgets.HTML(), None
        self.knobs = [self.prompt, self.temperature, self.top_k, self.top_p, self.seed, self.tokens]
        for knob in self.knobs[:4]:
            knob.observe(lambda change: self.look(), "value")
        self.button.on_click(lambda button: self.press())
        columns = widgets.HBox([widgets.VBox(self.knobs[:3]), widgets.VBox(self.knobs[3:])])
        self.box = widgets.VBox([columns, self.button, self.picture, self.page])

    def show(self):
        """Display the panel, and below it a picture and a text of its settings."""
        from IPython.display import display

        display(self.box)
        self.first = display(self.figure(), display_id=True)
        print(f"temperature {self.temperature.value:g}, top-p {self.top_p.value:g}, seed {self.seed.value}:")
        print(self.write())

    def next(self):
        """(p, kept), (V,) both: the model's distribution after the prompt, and what temperature and cuts leave."""
        tokens = encode(self.encoding, self.prompt.value) or [self.encoding.eot_token]
        x = np.array([tokens[-self.window :]], np.int32)  # (1, T)
        logits = self.model.backend.to_numpy(self.model.logits(x)[0, -1, : self.model.config.V])  # (V,)
        cut = self.temperature.value, self.top_k.value, self.top_p.value
        return probabilities(logits), probabilities(logits, *cut)

    def figure(self):
        """The bars, as a matplotlib figure."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.2, 3.6), dpi=144, layout="constrained")
        draw_next(figure.subplots(), *self.next(), self.encoding)
        return figure

    def look(self):
        """Draw the bars again, in the panel alone."""
        self.picture.value = as_output(self.figure())[0]["text/html"]
        if self.first:
            self.first.update({"text/plain": ""}, raw=True)

    def write(self) -> str:
        """The prompt and the text that follows it."""
        prompt, knobs = self.prompt.value, (self.temperature.value, self.top_k.value, self.seed.value)
        options = dict(top_p=self.top_p.value, window=self.window)
        return prompt + "".join(sample_text(self.model, self.encoding, prompt, self.tokens.value, *knobs, **options))

    def press(self):
        """Write, and show the text; the button is disabled meanwhile."""
        from html import escape

        self.button.disabled = True
        try:
            text = self.write()
        except UserError as error:
            text = str(error)
        finally:
            self.button.disabled = False
        self.page.value = f'<pre style="white-space:pre-wrap;max-width:60em">{escape(text)}</pre>'
