"""An agent hunts a flaky test, once with everything re-sent and once with older results compacted.

Start reading at `story.run_demo`; `agent.play` is the loop that a worker of your own would have.
"""
