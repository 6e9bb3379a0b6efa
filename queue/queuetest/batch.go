package queuetest

// batchAtomic: a batch with one part that is refused does nothing at all (B8).
func batchAtomic(s *store) {
	h := s.begin()
	s.batches(h)
	h.next("a", "b")
	fresh := []job{{"c", 0, text("c")}, {"d", 0, text("d")}}
	h.want(conflict, h.commit(fresh, []string{"a", "never"}, []string{"b"}))
	h.want(conflict, h.commit(fresh, []string{"a"}, []string{"b", "never"}))
	h.want(conflict, h.commit(fresh, []string{"never"}, nil))
	h.want(conflict, h.accept("c"))
	h = h.other(s.open())
	h.wantJobs(h.load(), 2, "a?", "b?")
	h.wantFirst(h.commit(fresh, []string{"a"}, []string{"b"}), first{3, text("c"), false}, first{4, text("d"), false})
	h = h.other(s.open())
	h.wantJobs(h.load(), 4, "a", "c?", "d?")
	h.wantFirst(h.commit(nil, nil, nil))
}

// batchOrder: stores come before accepts and those before confirmations, so
// that what the batch stores can be accepted and confirmed by it; a part may be
// repeated (B8).
func batchOrder(s *store) {
	h := s.begin()
	s.batches(h)
	stores := []job{{"a", 0, text("a")}, {"b", 0, text("b")}, {"c", 0, text("c")}, {"d", 0, text("d")}}
	h.wantFirst(h.commit(stores, []string{"d", "b"}, []string{"d", "c", "d"}),
		first{1, text("a"), false}, first{2, text("b"), false}, first{3, text("c"), false}, first{4, text("d"), false})
	// d is done, and still known in this epoch; its payload may be gone.
	h.wantKnown(h.commit([]job{{"d", 0, text("other")}}, []string{"d", "d"}, []string{"d"}), 4, false)
	h = h.other(s.open())
	h.wantJobs(h.load(), 4, "a?", "b")
	h.want(done, h.commit(nil, []string{"a", "c"}, []string{"a", "b"}))
	h = h.other(s.open())
	h.wantJobs(h.load(), 4)
}

// batchSequences: the queue gives the sequences, in order, so that what is known
// shifts nothing, whether from before or from the same batch (rules 68, 69).
func batchSequences(s *store) {
	h := s.begin()
	s.batches(h)
	h.next("a", "b")
	h.confirm("b")
	other := text("other")
	h.wantFirst(h.commit([]job{{"c", 0, text("c")}, {"a", 0, other}, {"d", 0, text("d")}, {"c", 0, other}, {"b", 0, other}, {"e", 0, text("e")}}, nil, nil),
		first{3, text("c"), false}, first{1, text("a"), true}, first{4, text("d"), false}, first{3, text("c"), true}, first{2, text("b"), true}, first{5, text("e"), false})
	h.wantFirst(h.commit([]job{{"e", 0, other}, {"a", 0, other}}, nil, nil), first{5, text("e"), true}, first{1, text("a"), true})
	h = h.other(s.open())
	h.wantJobs(h.load(), 5, "a?", "c?", "d?", "e?")
	h.wantFirst(h.commit([]job{{"a", 0, other}, {"f", 0, text("f")}}, nil, nil), first{1, text("a"), true}, first{6, text("f"), false})
	h.wantFirst(h.put("g", 7, text("g")), first{7, text("g"), false}) // one by one goes as well
}

// batchFenced: nothing of a batch of an older writer is done (rule 65).
func batchFenced(s *store) {
	old := s.begin()
	s.batches(old)
	old.next("a")
	young := old.other(s.open())
	young.load()
	old.want(fenced, old.commit([]job{{"b", 0, text("b")}}, []string{"a"}, []string{"a"}))
	old.want(fenced, old.commit(nil, nil, []string{"never"}))
	old.want(fenced, old.commit(nil, nil, nil))
	young.wantJobs(young.load(), 1, "a?")
}
