// A client that is generated from the agent's description, beside a real agent over real masters:
// main AGENT, where AGENT is like http://127.0.0.1:8080. The last line is `N passed, N failed`.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"

	"lockagent/tests/openapi/client"
)

const key = "generated/a key, of blanks & ümlauts" // all that has to be escaped in a path

var passed, failed int

func see(what string, is bool, got ...any) {
	if is {
		passed++
		return
	}
	failed++
	fmt.Println(append([]any{"FAILED", what + ":"}, got...)...)
}

// seen is false, and said, where a call was not answered as its description says.
func seen(what string, err error) bool {
	see(what, err == nil, err)
	return err == nil
}

func to[T any](value T) *T { return &value }

// known fails where an answer has a member that the generated type does not have.
func known[T any](what string, body []byte) {
	var into T
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	seen(what+": every member is described", decoder.Decode(&into))
}

func plainText(_ context.Context, request *http.Request) error {
	request.Header.Set("Accept", "text/plain")
	return nil
}

type session struct {
	*client.ClientWithResponses
	context.Context
	judge *judge
}

// acquire takes the key; the test cannot go on where it does not.
func (session session) acquire(body client.Acquire) *client.Hold {
	answer, err := session.AcquireWithResponse(session, key, nil, body)
	if !seen("acquire", err) {
		return nil
	}
	see("acquire: 201", answer.JSON201 != nil, answer.Status(), string(answer.Body))
	known[client.Hold]("acquire", answer.Body)
	return answer.JSON201
}

func (session session) release(token client.Token) {
	answer, err := session.ReleaseWithResponse(session, key,
		&client.ReleaseParams{LockToken: &token}, client.Release{})
	if seen("release", err) {
		see("release: 204", answer.StatusCode() == 204, answer.Status(), string(answer.Body))
	}
}

// lines reads a stream and tells its events in order, each held against the descriptions.
func (session session) lines(what string, answer *http.Response) <-chan client.HoldEvent {
	events := make(chan client.HoldEvent, 16)
	go func() {
		defer close(events)
		for scanner := bufio.NewScanner(answer.Body); scanner.Scan(); {
			var event client.HoldEvent
			if err := session.judge.line(scanner.Bytes()); err != nil {
				fmt.Println("FAILED", what+":", err)
				return
			}
			if json.Unmarshal(scanner.Bytes(), &event) == nil {
				events <- event
			}
		}
	}()
	return events
}

func next(what string, events <-chan client.HoldEvent, wanted client.HoldEventEvent) {
	select {
	case event, open := <-events:
		see(what, open && event.Event == wanted, "wanted", wanted, "got", event.Event)
	case <-time.After(10 * time.Second):
		see(what, false, "silence for 10 s")
	}
}

func (session session) aLife() {
	hold := session.acquire(client.Acquire{Ttl: to("10s"), Label: to("generated"),
		Renew: to(client.Agent), Bind: to(client.BindNone)})
	if hold == nil {
		return
	}
	see("the hold", hold.Key == key && hold.TtlMs == 10000 && hold.ValidForMs > 0 &&
		hold.Renew == client.Agent && hold.Bind == client.BindNone, hold)
	see("the fencing number has more than 32 bits",
		hold.FencingToken != nil && *hold.FencingToken > 1<<32, hold.FencingToken)

	if refused, err := session.AcquireWithFormdataBodyWithResponse(session, key, nil,
		client.Acquire{Wait: to("100ms"), Label: to("second")}); seen("refused", err) {
		problem := refused.ApplicationproblemJSON409
		see("refused: wait_timeout, and by whom", problem != nil &&
			problem.Code == client.WaitTimeout && *problem.Holder == "generated", string(refused.Body))
		known[client.Problem]("refused", refused.Body)
	}
	if read, err := session.ReadWithResponse(session, key, nil); seen("read", err) {
		see("read: held", read.JSON200 != nil && read.JSON200.State == client.KeyStateStateHeld &&
			len(read.JSON200.Masters) == 5 && *read.JSON200.Hold.Label == "generated", string(read.Body))
		known[client.KeyState]("read", read.Body)
	}
	if list, err := session.ListWithResponse(session, nil); seen("list", err) {
		see("list", list.JSON200 != nil && len(list.JSON200.Held) == 1 &&
			list.JSON200.Held[0].Key == key, string(list.Body))
		known[client.LockList]("list", list.Body)
	}

	watch, err := session.Read(session, key,
		&client.ReadParams{Watch: to(client.ReadParamsWatchTrue)})
	if !seen("watch", err) {
		return
	}
	defer watch.Body.Close()
	events := session.lines("watch", watch)
	next("watch: held", events, client.HoldEventEventHeld)
	if renewed, err := session.RenewWithResponse(session, key,
		&client.RenewParams{LockToken: &hold.Token}, client.Renew{Ttl: to("20s")}); seen("renew", err) {
		see("renew: 200", renewed.JSON200 != nil && renewed.JSON200.TtlMs == 20000 &&
			*renewed.JSON200.FencingToken == *hold.FencingToken, renewed.Status(), string(renewed.Body))
		known[client.Hold]("renew", renewed.Body)
	}
	next("watch: renewed", events, client.HoldEventEventRenewed)
	session.release(hold.Token)
	next("watch: released", events, client.HoldEventEventReleased)

	if read, err := session.ReadWithResponse(session, key, nil); seen("read", err) {
		see("read: free", read.JSON200 != nil && read.JSON200.State == client.KeyStateStateFree,
			string(read.Body))
	}
	if again, err := session.RenewWithResponse(session, key, nil,
		client.Renew{Token: &hold.Token}); seen("renew what was released", err) {
		see("renew what was released: not_held", again.ApplicationproblemJSON404 != nil &&
			again.ApplicationproblemJSON404.Code == client.NotHeld, string(again.Body))
	}
}

func (session session) othersToken() {
	hold := session.acquire(client.Acquire{})
	if hold == nil {
		return
	}
	if other, err := session.ReleaseWithResponse(session, key, nil,
		client.Release{Token: to("0000000000000000000000000000000000000000.1")}); seen(
		"another token", err) {
		see("another token: token_mismatch", other.ApplicationproblemJSON412 != nil &&
			other.ApplicationproblemJSON412.Code == client.TokenMismatch, string(other.Body))
	}
	session.release(hold.Token)
}

func (session session) lost() {
	hold := session.acquire(client.Acquire{MaxHold: to("1s"), Ttl: to("1s")})
	if hold == nil {
		return
	}
	time.Sleep(1500 * time.Millisecond)
	if late, err := session.RenewWithResponse(session, key,
		&client.RenewParams{LockToken: &hold.Token}, client.Renew{}); seen("too late", err) {
		problem := late.ApplicationproblemJSON410
		see("too late: lock_lost", problem != nil && problem.Code == client.LockLost &&
			problem.Reason != nil && *problem.Reason != client.ReasonNone, string(late.Body))
	}
}

func (session session) bound() {
	answer, err := session.Acquire(session, key, nil,
		client.Acquire{Bind: to(client.BindConnection)})
	if !seen("bound", err) {
		return
	}
	see("bound: 201", answer.StatusCode == 201, answer.Status)
	next("bound: granted", session.lines("bound", answer), client.HoldEventEventGranted)
	answer.Body.Close()
	// A waiter gets it as soon as the agent sees that the connection is closed.
	if hold := session.acquire(client.Acquire{Wait: to("5s")}); hold != nil {
		session.release(hold.Token)
	}
}

func (session session) plain() {
	answer, err := session.AcquireWithResponse(session, key, nil, client.Acquire{}, plainText)
	if seen("plain text", err) {
		token := answer.HTTPResponse.Header.Get("Lock-Token")
		see("plain text: the token", token != "" && string(answer.Body) == token+"\n",
			string(answer.Body))
		session.release(token)
	}
}

func (session session) badRequest() {
	session.judge.strict = false
	defer func() { session.judge.strict = true }()
	answer, err := session.AcquireWithResponse(session, key,
		&client.AcquireParams{Ttl: to("soon")}, client.Acquire{})
	if seen("a bad ttl", err) {
		problem := answer.ApplicationproblemJSONDefault
		see("a bad ttl: bad_request", problem != nil && problem.Code == client.BadRequest &&
			*problem.Parameter == "ttl", string(answer.Body))
		known[client.Problem]("a bad ttl", answer.Body)
	}
}

func (session session) pages() {
	if ready, err := session.ReadyWithResponse(session); seen("ready", err) {
		see("ready: 200", ready.JSON200 != nil && ready.JSON200.Ready, string(ready.Body))
		known[client.Readiness]("ready", ready.Body)
	}
	type page interface{ StatusCode() int }
	pages := map[string]func() (page, error){
		"live":    func() (page, error) { return session.LiveWithResponse(session) },
		"health":  func() (page, error) { return session.HealthWithResponse(session) },
		"metrics": func() (page, error) { return session.MetricsWithResponse(session) },
		"status":  func() (page, error) { return session.StatusWithResponse(session, nil) },
		"3.1":     func() (page, error) { return session.OpenapiWithResponse(session) },
		"3.0.3":   func() (page, error) { return session.OpenapiForGeneratorsWithResponse(session) },
	}
	for name, ask := range pages {
		if answer, err := ask(); seen(name, err) {
			see(name+": 200", answer.StatusCode() == 200, answer.StatusCode())
		}
	}
}

// aLie fails where the judge lets an answer pass that is not as described.
func aLie(documents []*document) {
	for i, document := range documents {
		liar := &judge{documents: documents[i : i+1]}
		see(document.path+": refuses what is not so",
			liar.line([]byte(`{"event":"won","valid_for_ms":1,"valid_until_boottime_ms":1}`)) != nil &&
				liar.line([]byte(`{"event":"held","valid_for_ms":null,"valid_until_boottime_ms":1}`)) !=
					nil)
	}
}

func main() {
	agent := os.Args[1]
	judge := &judge{strict: true}
	versions := map[string]string{"/openapi.yaml": "3.1.0", "/openapi-3.0.yaml": "3.0.3"}
	for path, version := range versions {
		if document, err := load(agent, path, version); seen(path+" is valid", err) {
			judge.documents = append(judge.documents, document)
		}
	}
	aLie(judge.documents)
	generated, err := client.NewClientWithResponses(agent,
		client.WithHTTPClient(&http.Client{Transport: judge}))
	if seen("the client", err) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		session := session{generated, ctx, judge}
		session.aLife()
		session.othersToken()
		session.lost()
		session.bound()
		session.plain()
		session.badRequest()
		session.pages()
	}
	fmt.Printf("%d requests, answers and lines were as both descriptions say\n", judge.judged)
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
