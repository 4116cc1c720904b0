# The main job on real components, start to end. docs/demo.md shows what to expect.

# 1 leaves everything running; 1 waits for Enter after each step.
KEEP ?=
PAUSE ?=

DEMO := bin/demo

.PHONY: demo
demo: lab-command demo-command ## Show the main job on a lab of its own, checked at each step (KEEP=1, PAUSE=1)
	@$(DEMO) --repo . --lab $(LAB) --keep=$(if $(filter-out 0,$(KEEP)),true,false) --pause=$(if $(filter-out 0,$(PAUSE)),true,false)

# go build decides whether there is anything to do.
.PHONY: demo-command
demo-command:
	@[ -x $(DEMO) ] || echo "demo: building the demo command (a minute or two the first time)" >&2
	@go -C lab build -trimpath -buildvcs=false -o ../$(DEMO) ./cmd/demo
