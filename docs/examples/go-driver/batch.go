package main

// Forward passes that are more than one request's, or whose result nobody waits for: between Allocate and Commit of one
// request comes another one's Allocate, or its own Free.

import "slices"

// OneByOne is a manager that is asked to Allocate for no request while the result for another one is outstanding.
type OneByOne interface{ OneByOne() }

// NeverCut is a manager whose server always waits for what is computed: no Free comes between Allocate and Commit.
type NeverCut interface{ NeverCut() }

// pass is a request in a forward pass, and up to where that computes it.
type pass struct {
	request *Request
	until   int
}

func init() { // Here, since batch looks operations up in this map.
	operations["begin"], operations["batch"], operations["cut"] = (*system).begin, (*system).batch, (*system).cut
}

// begin puts an operation off until the next batch.
func (s *system) begin(a arguments) done {
	s.begun = append(s.begun, a)
	return done{}
}

// batch lets what was begun share a forward pass; what else is asked of a request that is in it is left out.
func (s *system) batch(arguments) done {
	begun, came := s.begun, object{}
	s.begun, s.passing, s.shared = nil, nil, true
	for _, a := range begun {
		isIn := slices.ContainsFunc(s.passing, func(p pass) bool { return p.request.Name == a.Request })
		if isIn {
			continue
		}
		if each := operations[a.Op](s, a); !each.skipped {
			came[a.Op+" "+a.Request] = each.result
		}
	}
	s.shared = false
	for _, p := range s.passing {
		s.process(p.request, p.until)
	}
	if len(came) == 0 {
		return skipped
	}
	return done{result: came}
}

// cut lets a request be admitted or go on, and give up its blocks before the result is there.
func (s *system) cut(a arguments) done {
	waits := s.requests[a.Request] != nil && s.runs(a.Request) == nil
	if waits && s.host != nil { // What a load brings may be registered by Commit, which does not come.
		return skipped
	}
	s.cutting = true
	defer func() { s.cutting = false }()
	if waits {
		return s.resume(a)
	}
	if grown := s.grow(a); !grown.skipped {
		return grown
	}
	a.Most = len(a.Tokens)
	return s.step(a)
}
