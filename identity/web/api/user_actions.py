"""/api/user-action, /api/user/action and /api/user/comment: kinds of actions, actions on users, and comments."""

from __future__ import annotations

from identity.call import Call
from identity.domain.objects.resource_definition import Resource
from identity.errors import Invalid
from identity.operations.user_actions import applied_actions, user_comments
from identity.operations.user_actions import user_actions as operations
from identity.web import crud
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, calls, endpoint

_SCHEMA = operations.RESOURCE.schema
_OBJECT = f"{_SCHEMA}#userAction"
_TAKES = "api/action.request.json"
_ANSWER = "api/action.response.json"


class UserActionsHandler(crud.CollectionHandler):
    """Create with a random id, retrieve all."""

    @endpoint(access=Access.API_KEY, query={"inactive": "boolean"})
    async def get(self, call: Call) -> Reply:
        """Retrieve the active user actions, or with `inactive` the others."""
        return await self.respond_all(operations.retrieve_all(self.services, call, inactive=self.flag("inactive")))


class UserActionHandler(crud.ObjectHandler):
    """One user action."""

    @endpoint(access=Access.API_KEY, query={"reactivate": "boolean"}, takes=_SCHEMA, answer=_OBJECT)
    async def put(self, call: Call, object_id: str) -> Reply:
        """Replace, or with `reactivate` activate again."""
        if self.flag("reactivate"):
            return await self.respond(await operations.reactivate(self.services, call, object_id))
        return await self.respond(await self.operation("update", call)(self.json_object(), object_id))

    @endpoint(access=Access.API_KEY, query={"hardDelete": "boolean"})
    async def delete(self, call: Call, object_id: str) -> Reply:
        """Deactivate, or with `hardDelete` delete."""
        if self.flag("hardDelete"):
            await self.operation("delete", call)(object_id)
        else:
            await operations.deactivate(self.services, call, object_id)
        return Reply()


class ActionsHandler(ApiHandler):
    """Take an action; list those on a user."""

    post = calls(applied_actions.apply, "Take an action on a user.", wrapper="action", takes=_TAKES, answer=_ANSWER)

    @endpoint(
        access=Access.API_KEY,
        query={"userId": "uuid", "active": "boolean", "preventingLogin": "boolean"},
        answer="api/actions.response.json",
    )
    async def get(self, call: Call) -> Reply:
        """Retrieve the actions on a user: all, the active or inactive ones, or those that prevent logins."""
        user_id = self.required_query_id("userId")
        active = self.flag("active") if "active" in self.query() else None
        preventing = self.flag("preventingLogin")
        if preventing and active is not None:
            message = "The [preventingLogin] cannot be used together with [active]."
            raise Invalid.field("notAllowed", "preventingLogin", message)
        actions = await applied_actions.retrieve_of_user(
            self.services, call, user_id, active=active, preventing_login=preventing
        )
        return Reply({"actions": actions})


class ActionHandler(ApiHandler):
    """One action on a user."""

    get = calls(applied_actions.retrieve, "Retrieve.", wrapper="action", answer=_ANSWER)

    put = calls(
        applied_actions.modify, "Modify the expiration or the comment.", wrapper="action", takes=_TAKES, answer=_ANSWER
    )

    delete = calls(
        applied_actions.cancel,
        "Cancel the action before it expires.",
        wrapper="action",
        body_required=False,
        takes=_TAKES,
        answer=_ANSWER,
    )


class CommentsHandler(ApiHandler):
    """Comment on a user."""

    post = calls(
        user_comments.add,
        "Add a comment about a user.",
        wrapper="userComment",
        takes="api/user-comment.json",
        answer="api/user-comment.json",
    )


class CommentsOfUserHandler(ApiHandler):
    """The comments about a user."""

    get = calls(
        user_comments.retrieve_of_user,
        "Retrieve all, the newest first.",
        wrapper="userComments",
        answer="api/user-comments.response.json",
    )


class CommentSearchHandler(crud.SearchHandler):
    """Search of comments."""

    resource: Resource = user_comments.RESOURCE


ROUTES = [
    *crud.routes(operations.RESOURCE, collection=UserActionsHandler, item=UserActionHandler),
    Route("/api/user/action", ActionsHandler),
    Route("/api/user/action/{action_id}", ActionHandler),
    Route("/api/user/comment", CommentsHandler),
    Route("/api/user/comment/search", CommentSearchHandler),
    Route("/api/user/comment/{user_id}", CommentsOfUserHandler),
]
