//! Creates, lists, reads and deletes classifiers.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{HeaderName, LOCATION};

use super::info::{ClassifierInfo, ClassifierList};
use super::request::{CreateClassifierRequest, check};
use super::{ClassifierPath, check_name, is_visible, visible_classifier};
use crate::domain::{Caller, ClassifierName, Code};
use crate::http::api::Api;
use crate::http::error::ApiError;
use crate::http::jobs::AcceptedJob;
use crate::http::middleware::auth::check_access;
use crate::http::request::cursor;
use crate::http::request::extract::{ABOUT_IDEMPOTENCY_KEY, KeyedBody, PageParameters, Parameters};

/// Create a classifier
///
/// Creates a classifier and starts the job that trains it. Its state is `training` in the response, and `ready` once the job
/// has succeeded. It learns from labeled documents of a collection (`source`) or from labeled texts (`examples`), in some
/// languages, and predicts labels in all languages; a `prototype` needs only `labels`. Unusable training data is refused before
/// anything is created.
#[utoipa::path(
    post, path = "/v1/classifiers", tag = "classifiers",
    params(("idempotency-key" = Option<String>, Header, description = ABOUT_IDEMPOTENCY_KEY)),
    request_body(content = CreateClassifierRequest, description = "The kind of classifier and what it learns from."),
    responses((
        status = 201, description = "The classifier was created; a job trains it.", body = ClassifierInfo,
        headers(("location" = String, description = "Path of the new classifier.")),
    )),
)]
pub async fn create_classifier(
    State(api): State<Api>,
    caller: Caller,
    KeyedBody(body, key): KeyedBody<CreateClassifierRequest>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<ClassifierInfo>), ApiError> {
    let new = check(body, api.service.limits())?;
    if let Some(source) = &new.definition.source {
        check_access(&caller, &source.collection)?;
    }
    check_name(&caller, &new.name)?;
    let name = new.name.clone();
    let classifier = match api.service.create_classifier(new, key).await.map_err(ApiError::from) {
        Err(error) if error.code == Code::ClassifierExists => {
            let existing = api.service.get_classifier(&name).await;
            let hidden = existing.is_ok_and(|classifier| !is_visible(&caller, &classifier));
            // The caller must not learn that it exists.
            Err(if hidden { ApiError::at(Code::Forbidden, "/name", "the key may not use this name") } else { error })
        }
        created => created,
    }?;
    let location = format!("/v1/classifiers/{}", classifier.record.name);
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(classifier.into())))
}

/// List classifiers
///
/// Lists classifiers in the order of their names, page by page. With a restricted key, classifiers that learn from other
/// collections are left out.
#[utoipa::path(
    get, path = "/v1/classifiers", tag = "classifiers", params(PageParameters),
    responses((status = 200, description = "One page of classifiers.", body = ClassifierList)),
)]
pub async fn list_classifiers(
    State(api): State<Api>,
    caller: Caller,
    parameters: Parameters<PageParameters>,
) -> Result<Json<ClassifierList>, ApiError> {
    let page = parameters.page(&api, "classifiers", ClassifierName::parse)?;
    let (found, next) = api.service.list_classifiers(page).await?;
    let seen = found.into_iter().filter(|classifier| is_visible(&caller, classifier));
    Ok(Json(ClassifierList {
        classifiers: seen.map(ClassifierInfo::from).collect(),
        next_cursor: next.map(|name| cursor::encode("classifiers", name.as_str())),
    }))
}

/// Get a classifier
///
/// Returns a classifier's definition, its state, and the results of its training.
#[utoipa::path(
    get, path = "/v1/classifiers/{classifier}", tag = "classifiers",
    responses((status = 200, description = "The classifier.", body = ClassifierInfo)),
)]
pub async fn get_classifier(
    State(api): State<Api>,
    caller: Caller,
    ClassifierPath(name): ClassifierPath,
) -> Result<Json<ClassifierInfo>, ApiError> {
    Ok(Json(visible_classifier(&api, &caller, &name).await?.into()))
}

/// Train a classifier again
///
/// Starts a job that trains a classifier again for the loaded model, on its collection's current labels or the texts it was
/// created with. Until the job has succeeded, and if it fails or is canceled, the classifier predicts as before. `version` and
/// `trained_at` change when it is trained. After a restart the job starts over. Unusable labels are refused at once.
#[utoipa::path(post, path = "/v1/classifiers/{classifier}/train", tag = "classifiers", responses(AcceptedJob))]
pub async fn train_classifier(
    State(api): State<Api>,
    caller: Caller,
    ClassifierPath(name): ClassifierPath,
) -> Result<AcceptedJob, ApiError> {
    visible_classifier(&api, &caller, &name).await?;
    Ok(AcceptedJob(api.service.retrain_classifier(&name).await?))
}

/// Delete a classifier
///
/// Deletes a classifier, but neither the documents it learned from nor the labels it wrote. A running training is canceled. A
/// job that writes its labels or evaluates it fails at its next step with `classifier_not_found`.
#[utoipa::path(
    delete, path = "/v1/classifiers/{classifier}", tag = "classifiers",
    responses((status = 204, description = "The classifier was deleted.")),
)]
pub async fn delete_classifier(
    State(api): State<Api>,
    caller: Caller,
    ClassifierPath(name): ClassifierPath,
) -> Result<StatusCode, ApiError> {
    visible_classifier(&api, &caller, &name).await?;
    api.service.delete_classifier(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}
