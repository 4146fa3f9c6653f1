// The agent's descriptions as judges: each request and each answer is held against both.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

const stream = "application/x-ndjson"

// A document is one of the descriptions that the agent serves.
type document struct {
	path, version string
	spec          *openapi3.T
}

// load asks the agent for a description and validates it.
func load(agent, path, version string) (*document, error) {
	text, err := fetch(agent + path)
	if err != nil {
		return nil, err
	}
	spec, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	if spec.OpenAPI != version {
		return nil, fmt.Errorf("it is of OpenAPI %s", spec.OpenAPI)
	}
	return &document{path, version, spec}, spec.Validate(context.Background())
}

func fetch(address string) ([]byte, error) {
	answer, err := http.Get(address)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", address, answer.Status)
	}
	return io.ReadAll(answer.Body)
}

// operation finds what the document says of a request; keys are all that is behind /locks/.
func (document *document) operation(
	request *http.Request) (*openapi3filter.RequestValidationInput, error) {
	path, parameters := request.URL.Path, map[string]string{}
	if key, found := strings.CutPrefix(request.URL.EscapedPath(), "/locks/"); found {
		plain, err := url.PathUnescape(key)
		if err != nil {
			return nil, err
		}
		path, parameters["key"] = "/locks/{key}", plain
	}
	item := document.spec.Paths.Value(path)
	if item == nil || item.GetOperation(request.Method) == nil {
		return nil, fmt.Errorf("%s %s is not in it", request.Method, path)
	}
	return &openapi3filter.RequestValidationInput{
		Request:    request,
		PathParams: parameters,
		Route: &routers.Route{Spec: document.spec, Path: path, PathItem: item,
			Method: request.Method, Operation: item.GetOperation(request.Method)},
		Options: &openapi3filter.Options{
			AuthenticationFunc:  openapi3filter.NoopAuthenticationFunc,
			SkipSettingDefaults: true,
		},
	}, nil
}

// A judge sends requests on, and fails where one or its answer is not as the documents say.
type judge struct {
	documents []*document
	strict    bool // requests too; without it only answers
	judged    int
}

func init() {
	openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.PlainBodyDecoder)
}

func (judge *judge) RoundTrip(request *http.Request) (*http.Response, error) {
	var sent []byte
	if request.Body != nil {
		sent, _ = io.ReadAll(request.Body)
	}
	inputs := make([]*openapi3filter.RequestValidationInput, len(judge.documents))
	for i, document := range judge.documents {
		request.Body = io.NopCloser(bytes.NewReader(sent))
		input, err := document.operation(request)
		if err == nil && judge.strict {
			err = openapi3filter.ValidateRequest(request.Context(), input)
		}
		if err != nil {
			return nil, fmt.Errorf("%s, request: %w", document.path, err)
		}
		inputs[i] = input
	}
	request.Body = io.NopCloser(bytes.NewReader(sent))
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	isStream := answer.Header.Get("Content-Type") == stream
	var got []byte
	if !isStream {
		if got, err = io.ReadAll(answer.Body); err != nil {
			return nil, err
		}
		answer.Body.Close()
		answer.Body = io.NopCloser(bytes.NewReader(got))
	}
	for i, document := range judge.documents {
		output := &openapi3filter.ResponseValidationInput{
			RequestValidationInput: inputs[i], Status: answer.StatusCode, Header: answer.Header,
			Options: &openapi3filter.Options{IncludeResponseStatus: true,
				ExcludeResponseBody: isStream || answer.StatusCode == http.StatusNoContent},
		}
		output.SetBodyBytes(got)
		if err := openapi3filter.ValidateResponse(request.Context(), output); err != nil {
			return nil, fmt.Errorf("%s, answer: %w", document.path, err)
		}
	}
	judge.judged++
	return answer, nil
}

// line holds one line of a stream against the schema HoldEvent of each document.
func (judge *judge) line(text []byte) error {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return err
	}
	for _, document := range judge.documents {
		options := []openapi3.SchemaValidationOption{openapi3.VisitAsResponse()}
		if document.spec.IsOpenAPI31OrLater() {
			options = append(options, openapi3.EnableJSONSchema2020())
		}
		schema := document.spec.Components.Schemas["HoldEvent"].Value
		if err := schema.VisitJSON(value, options...); err != nil {
			return fmt.Errorf("%s, line %s: %w", document.path, text, err)
		}
	}
	judge.judged++
	return nil
}
