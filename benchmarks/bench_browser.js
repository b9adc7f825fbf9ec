() => {
  // A frame is on screen when the task after the one that painted it begins.
  window.painted = () => new Promise((done) => requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = done;
    port2.postMessage(0);
  }));
  window.timed = async (work, pause) => {
    await new Promise((done) => setTimeout(done, pause));
    const start = performance.now();
    await work();
    await painted();
    return (performance.now() - start) / 1000;
  };
  window.changed = async (text) => {
    const door = document.querySelector(".wb-door"), before = door.dataset.plan;
    const box = door.querySelector('[data-key="omnibox"]');
    box.value = text;
    const redrawn = new Promise((done) => {
      const watched = new MutationObserver(() => {
        if (door.dataset.plan === before) return;
        watched.disconnect();
        done();
      });
      watched.observe(door, { attributes: true, attributeFilter: ["data-plan"] });
    });
    door.querySelector('[data-key="submit"]').click();
    await redrawn;
  };
}
